#include "partition.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "optrush/error.h"
#include "optrush/param.h"

namespace optrush::pipeline_parallel {
namespace {
void add_products(const Unit& unit, double tokens, double& flops) {
  tokens *= unit.share_of_tokens;
  for (const Module& module : unit.modules) {
    if (module.role != "linear" && module.role != "router")
      continue;  // an MLP and a loss have the matrices of linears
    for (const Param* param : module.params)
      if (param->shape.size() == 2)
        flops += (param->trainable ? 6.0 : 4.0) * static_cast<double>(param->numel()) * tokens;
  }
  for (const auto& child : unit.children) add_products(*child, tokens, flops);
}

/// The numbers of a list that is separated by commas. Throws an Error that names the first part that is not a
/// number.
std::vector<int64_t> numbers_of(const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    size_t end = 0;
    int64_t number = -1;
    try {
      number = std::stoll(item, &end);
    } catch (const std::exception&) {
    }
    if (number < 0 || item.find_first_not_of(' ', end) != std::string::npos)
      throw Error("pipeline_parallel: blocks = \"" + text + "\" has '" + item + "'",
                  "give the number of blocks of each stage, separated by commas: \"3,5\"");
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<int64_t> with_ends(const std::string& text, int64_t stages, int64_t blocks) {
  std::vector<int64_t> counts = numbers_of(text);
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (std::ssize(counts) != stages || sum != blocks)
    throw Error("pipeline_parallel: blocks = \"" + text + "\" puts " + std::to_string(sum) + " blocks on " +
                    std::to_string(counts.size()) + " stages, but there are " + std::to_string(blocks) +
                    " blocks and " + std::to_string(stages) + " stages",
                "give one number per stage, in total " + std::to_string(blocks) + ", or leave out blocks");
  ++counts.front();
  ++counts.back();
  if (std::ranges::min(counts) == 0)
    throw Error("pipeline_parallel: blocks = \"" + text + "\" gives a stage no unit",
                "give at least 1 block to stages without embedding and head");
  return counts;
}
}  // namespace

UnitCost cost_of(const Unit& unit, const RunSpec& spec) {
  const TrainSpec& train = spec.train;
  const double tokens = static_cast<double>(train.micro_batch * train.accumulation * train.seq_len);
  UnitCost cost;
  add_products(unit, tokens, cost.flops);
  if (unit.role == UnitRole::block && spec.model_kind == "llama") {
    const LlamaSpec model = llama_of(spec);
    const int64_t heads = model.has_linear_attention(unit.layer) ? 0 : model.n_heads;
    // q kᵀ and its product with v. Under the causal mask each pair of positions counts once. The backward
    // takes twice as many.
    cost.flops += 6.0 * static_cast<double>(heads * model.head_size(unit.layer) * train.seq_len) * tokens;
  }
  for (const Param* param : unit.params()) {
    if (!param->trainable) continue;
    // AdamW reads four tensors of 4 bytes and writes three; each micro-batch adds to the gradient.
    cost.bytes +=
        static_cast<double>(param->numel()) * (28.0 + 12.0 * static_cast<double>(train.accumulation));
  }
  return cost;
}

namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Cuts of the costs from each index on into consecutive parts.
class Cuts {
 public:
  explicit Cuts(const std::vector<double>& costs) : sums_(costs.size() + 1, 0) {
    std::partial_sum(costs.begin(), costs.end(), sums_.begin() + 1);
  }
  /// [p][i]: the least value of costs i.. in p + 1 parts; `join` of the value of a part and of the rest.
  template <class OfPart, class Join>
  std::vector<std::vector<double>> least(int64_t parts, const OfPart& of_part, const Join& join) const {
    std::vector<std::vector<double>> least(static_cast<size_t>(parts),
                                           std::vector<double>(sums_.size(), kNever));
    const size_t count = sums_.size() - 1;
    for (size_t i = 0; i < count; ++i) least[0][i] = of_part(sum(i, count));
    for (size_t part = 1; part < least.size(); ++part)
      for (size_t i = 0; i < count; ++i)
        for (size_t end = i + 1; end < count; ++end)
          least[part][i] = std::min(least[part][i], join(of_part(sum(i, end)), least[part - 1][end]));
    return least;
  }
  double sum(size_t from, size_t to) const { return sums_[to] - sums_[from]; }

 private:
  std::vector<double> sums_;
};
}  // namespace

std::vector<int64_t> even_parts(const std::vector<double>& costs, int64_t parts) {
  const Cuts cuts(costs);
  const auto larger = [](double a, double b) { return std::max(a, b); };
  const double limit = cuts.least(parts, std::identity(), larger).back()[0] * (1 + 1e-9);
  const auto square = [&](double sum) { return sum <= limit ? sum * sum : kNever; };
  const auto squares = cuts.least(parts, square, std::plus());
  std::vector<int64_t> counts;
  size_t from = 0;
  for (size_t left = squares.size() - 1; left > 0; --left) {
    const double best = squares[left][from] * (1 + 1e-9);  // of equal cuts the one with light first parts
    size_t end = from + 1;
    while (square(cuts.sum(from, end)) + squares[left - 1][end] > best) ++end;
    counts.push_back(static_cast<int64_t>(end - from));
    from = end;
  }
  counts.push_back(static_cast<int64_t>(costs.size() - from));
  return counts;
}

std::vector<int64_t> units_of_stages(const std::vector<std::unique_ptr<Unit>>& units, const RunSpec& spec,
                                     int64_t stages, const std::string& blocks, bool gpu) {
  const auto count = static_cast<int64_t>(units.size());
  if (count < stages)
    throw Error("pipeline_parallel: a model of " + std::to_string(count) +
                    " units (embedding, blocks, head) cannot be split into " + std::to_string(stages) +
                    " stages",
                "use fewer ranks or chunks, or a deeper model");
  if (!blocks.empty()) return with_ends(blocks, stages, count - 2);
  // A core of a CPU has some 100 GFLOP/s and 10 GB/s; an H100 reaches 400 TFLOP/s and 2.5 TB/s.
  const double flops_of_a_byte = gpu ? 160 : 10;
  std::vector<double> costs;
  for (const auto& unit : units) {
    const UnitCost cost = cost_of(*unit, spec);
    costs.push_back(cost.flops + flops_of_a_byte * cost.bytes);
  }
  return even_parts(costs, stages);
}
}  // namespace optrush::pipeline_parallel
