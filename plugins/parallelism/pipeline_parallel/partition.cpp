#include "partition.h"

#include <algorithm>
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

std::vector<int64_t> even_parts(const std::vector<double>& costs, int64_t parts) {
  const auto count = static_cast<int64_t>(costs.size());
  std::vector<double> sums(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  const auto sum = [&](int64_t from, int64_t to) {
    return sums[static_cast<size_t>(to)] - sums[static_cast<size_t>(from)];
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // largest[p][i]: the smallest largest sum of costs i.. in p + 1 parts.
  std::vector<std::vector<double>> largest(static_cast<size_t>(parts),
                                           std::vector<double>(costs.size() + 1, kNever));
  for (int64_t i = 0; i < count; ++i) largest[0][static_cast<size_t>(i)] = sum(i, count);
  for (size_t part = 1; part < largest.size(); ++part)
    for (int64_t i = 0; i < count; ++i)
      for (int64_t end = i + 1; end < count; ++end) {
        const double here = std::max(sum(i, end), largest[part - 1][static_cast<size_t>(end)]);
        largest[part][static_cast<size_t>(i)] = std::min(largest[part][static_cast<size_t>(i)], here);
      }
  std::vector<int64_t> counts;
  int64_t from = 0;
  for (size_t left = largest.size() - 1; left > 0; --left) {
    // Takes as many as fit below the best largest sum, so that later parts are light.
    const double limit = largest.back()[0] * (1 + 1e-9);
    int64_t end = from + 1;
    for (int64_t more = end; more < count; ++more)
      if (sum(from, more) <= limit && largest[left - 1][static_cast<size_t>(more)] <= limit) end = more;
    counts.push_back(end - from);
    from = end;
  }
  counts.push_back(count - from);
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
