#include "model/kinds.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "model/declare.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/recipe.h"
#include "optrush/run.h"
#include "params/init.h"

namespace optrush {
namespace {
constexpr const char* kDimension = "ranks";

class Exchange {
 public:
  explicit Exchange(CollectiveSpec spec) : spec_(std::move(spec)) {}

  void prepare(Run& run) {
    const at::NoGradGuard no_grad;
    group_ = &run.mesh().group({kDimension});
    const int64_t ranks = group_->size(), unit = 4 * ranks;
    const int64_t part = (spec_.bytes + unit - 1) / unit;  // numbers per rank
    const auto make = [&](int64_t parts) {
      return at::zeros({parts, part}, at::TensorOptions(at::kFloat).device(run.device()));
    };
    in_ = make(spec_.op == "all_gather" ? 1 : ranks);
    out_ = spec_.op == "all_reduce" ? in_ : make(spec_.op == "reduce_scatter" ? 1 : ranks);
    const double bytes = static_cast<double>(part * unit),
                 share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    if (spec_.op == "send_recv")
      run.expect_traffic("send", {kDimension}, bytes * static_cast<double>(spec_.repeat));
    else
      run.expect_traffic(
          spec_.op, {kDimension},
          (spec_.op == "all_reduce" ? 2 : 1) * share * bytes * static_cast<double>(spec_.repeat));
    if (!is_forecast(run.device())) check_values();
  }

  void step() {
    const at::NoGradGuard no_grad;
    for (int64_t i = 0; i < spec_.repeat; ++i) once();
  }

 private:
  void once() {
    if (spec_.op == "all_reduce") {
      group_->all_reduce(in_).wait();
    } else if (spec_.op == "all_gather") {
      group_->all_gather(out_, in_).wait();
    } else if (spec_.op == "reduce_scatter") {
      group_->reduce_scatter(out_, in_).wait();
    } else if (spec_.op == "all_to_all") {
      group_->all_to_all(out_, in_).wait();
    } else {
      // All ranks send around a ring at the same time.
      const int64_t ranks = group_->size(), rank = group_->rank();
      group_->exchange(out_, (rank + ranks - 1) % ranks, in_, (rank + 1) % ranks).wait();
    }
  }

  /// Rank r has (r + 1)(p + 1) in its part p. Afterwards all values are set to zero, so that sums stay
  /// finite.
  void check_values() {
    const auto numbers = [&](int64_t count) { return at::arange(1, count + 1, in_.options()).unsqueeze(1); };
    const int64_t ranks = group_->size();
    const auto mine = static_cast<double>(group_->rank() + 1),
               sum = static_cast<double>(ranks * (ranks + 1)) / 2;
    in_.copy_((numbers(in_.size(0)) * mine).expand_as(in_));
    once();
    Tensor expected = numbers(ranks);
    if (spec_.op == "all_reduce") expected = expected * sum;
    if (spec_.op == "reduce_scatter") expected = at::full({1, 1}, mine * sum, in_.options());
    if (spec_.op == "all_to_all") expected = expected * mine;
    if (spec_.op == "send_recv") expected = expected * (mine == 1 ? static_cast<double>(ranks) : mine - 1);
    if (!at::equal(out_, expected.expand_as(out_).contiguous()))
      throw Error(ErrorCode::wrong_result,
                  spec_.op + " of " + std::to_string(spec_.bytes) + " bytes over " + std::to_string(ranks) +
                      " ranks gave wrong values",
                  "the backend or the link between the ranks is faulty; see `optrush doctor`");
    in_.zero_();
    out_.zero_();
  }

  CollectiveSpec spec_;
  Group* group_ = nullptr;
  Tensor in_, out_;  ///< shape (parts, numbers per part)
};

std::unique_ptr<Unit> passed_on(const std::string& path, UnitRole role) {
  auto unit = make_unit(path, role, role == UnitRole::block ? 0 : -1);
  unit->build = [](const Binder&) -> UnitFunction {
    return [](const Tensor& x, const Batch& batch) { return x.defined() ? x : batch.input; };
  };
  return unit;
}
}  // namespace

Model declare_collective(const CollectiveSpec&, Params& params, at::ScalarType dtype) {
  Model model;
  model.units.push_back(passed_on("input", UnitRole::embed));
  model.units.push_back(passed_on("collective", UnitRole::block));
  const Param& gain = params.add(vector_param("head.gain", 1, "model", constant(1), dtype));
  auto head = make_unit("head", UnitRole::head, -1);
  head->modules.emplace_back(Module{"head", "gain", -1, {&params.at(gain.name)}});
  head->build = [&gain](const Binder&) -> UnitFunction {
    return [&gain](const Tensor&, const Batch& batch) {
      return gain.value().square().sum() * batch.token_count;
    };
  };
  model.units.push_back(std::move(head));
  model.prepare = [](Batch&) {};
  model.input_dim = 1;
  return model;
}

void call_collective(const CollectiveSpec& spec, Recipe& recipe) {
  const int64_t ranks = recipe.spec().train.world_size;
  if (ranks == 1)
    throw Error(ErrorCode::wrong_ranks, "rush.collective needs at least two ranks, but train.world_size is 1",
                "set train.world_size; rush.ranks() returns the possible number");
  recipe.mesh.dim({kDimension, ranks, Splits::nothing, 20});
  const auto exchange = std::make_shared<Exchange>(spec);
  recipe.on(Event::ready, Phase::base, [exchange](Run& run) { exchange->prepare(run); });
  recipe.unit.wrap(Phase::base,
                   [exchange](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     if (unit.role != UnitRole::block) return inner;
                     return [exchange, inner](const Tensor& x, const Batch& batch) {
                       exchange->step();
                       return inner(x, batch);
                     };
                   },
                   {.trace = Trace::opaque, .predictable = true});
}
}  // namespace optrush
