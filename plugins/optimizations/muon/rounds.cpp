#include "rounds.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <optional>

namespace optrush::muon {
namespace {
int64_t rows(const Round& round) { return round.matrices.front()->shape[0]; }
int64_t columns(const Round& round) { return round.matrices.front()->shape[1]; }

at::TensorOptions sent(const Round& round) { return at::TensorOptions(round.sent_as).device(round.device); }

/// A round in progress: `whole` has the matrices of all ranks, one below the other; `mine` has the matrix of
/// this rank.
struct Flight {
  const Round* round;
  Tensor whole, mine;
  WorkHandle pending;
};

Tensor matrix_of(const Flight& flight, size_t rank) {
  const int64_t count = rows(*flight.round);
  return flight.whole.narrow(0, static_cast<int64_t>(rank) * count, count);
}

/// The transfer of this rank's matrix to this rank.
Flight collected(const Round& round, const Parts& parts) {
  const int64_t ranks = round.group->size();
  Flight flight{&round, {}, {}, {}};
  if (!round.cut) {
    const auto mine = static_cast<size_t>(round.group->rank());
    if (mine >= round.matrices.size()) return flight;
    if (const auto part = parts.find(round.matrices[mine]); part != parts.end())
      flight.mine = part->second.direction.to(sent(round)).view({rows(round), columns(round)});
    return flight;
  }
  flight.whole = at::zeros({ranks * rows(round), columns(round)}, sent(round));
  flight.mine = at::empty({rows(round), columns(round)}, sent(round));
  for (size_t i = 0; i < round.matrices.size(); ++i)
    if (const auto part = parts.find(round.matrices[i]); part != parts.end()) {
      const Part& here = part->second;
      const Tensor place = matrix_of(flight, i);
      Layout(round.matrices[i]->shape).copy(here.layout, here.direction, place);
    }
  flight.pending = round.group->reduce_scatter(flight.mine, flight.whole);
  return flight;
}
}  // namespace

bool is_hidden_matrix(const Param& param) {
  return param.shape.size() == 2 && std::ranges::find(param.axes, "vocab") == param.axes.end();
}

double Round::bytes() const {
  return static_cast<double>((group->size() - 1) * rows(*this) * columns(*this)) *
         static_cast<double>(at::elementSize(sent_as));
}

std::vector<Round> make_rounds(Run& run, bool share) {
  std::vector<Round> rounds;
  const Mesh& mesh = run.mesh();
  for (const Param* param : run.params().all()) {
    if (!param->trainable || !is_hidden_matrix(*param)) continue;
    Mesh::Names dims = param->cut_over();
    const bool cut = mesh.size(dims) > 1;
    if (!cut) dims = share ? param->summed_over(mesh) : Mesh::Names{};
    Round wanted{.group = &mesh.group(dims), .dims = dims, .cut = cut, .device = run.device()};
    if (wanted.group->size() == 1) continue;
    // In fp16, gradients without a loss scale would underflow.
    wanted.sent_as = param->compute_dtype == at::kBFloat16 ? at::kBFloat16 : param->dtype;
    const auto open = std::ranges::find_if(rounds, [&](const Round& round) {
      return round.group == wanted.group && round.cut == cut && round.sent_as == wanted.sent_as &&
             std::ssize(round.matrices) < round.group->size() &&
             round.matrices.front()->shape == param->shape &&
             round.matrices.front()->compute_dtype == param->compute_dtype;
    });
    Round& round = open == rounds.end() ? rounds.emplace_back(std::move(wanted)) : *open;
    round.matrices.push_back(param);
  }
  return rounds;
}

void run_rounds(std::span<const Round> rounds, const Parts& parts,
                const std::function<Tensor(const Param&, const Tensor&)>& orthogonalize,
                const std::function<void(const Param&, const Tensor&)>& take) {
  const auto take_all = [&](Flight& flight) {
    flight.pending.wait();
    for (size_t i = 0; i < flight.round->matrices.size(); ++i)
      take(*flight.round->matrices[i], matrix_of(flight, i));
  };
  std::optional<Flight> next, last;
  if (!rounds.empty()) next = collected(rounds.front(), parts);
  for (size_t i = 0; i < rounds.size(); ++i) {
    const Round& round = rounds[i];
    Flight flight = std::move(*next);
    if (i + 1 < rounds.size()) next = collected(rounds[i + 1], parts);
    flight.pending.wait();
    const auto mine = static_cast<size_t>(round.group->rank());
    const Tensor result = mine < round.matrices.size() && flight.mine.defined()
                              ? orthogonalize(*round.matrices[mine], flight.mine)
                              : at::zeros({rows(round), columns(round)}, sent(round));
    if (!flight.whole.defined())
      flight.whole = at::empty({round.group->size() * rows(round), columns(round)}, sent(round));
    flight.mine = result.contiguous();
    flight.pending = round.group->all_gather(flight.whole, flight.mine);
    if (last) take_all(*last);
    last = std::move(flight);
  }
  if (last) take_all(*last);
}
}  // namespace optrush::muon
