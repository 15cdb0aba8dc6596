#include "train/state.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/contains.h"
#include "base/printable.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr const char* kStep = "run/step";
constexpr const char* kSamples = "run/samples";
constexpr const char* kOrder = "run/order";
constexpr const char* kMesh = "run/mesh";

constexpr std::string_view kModel = "model/";

std::string model_key(const Param& param) { return std::string(kModel) + param.name; }
std::string optimizer_key(const OptimizerState& state, const Param& param) {
  return "optimizer/" + state.name + "/" + param.name;
}

StatePiece whole(std::string key, const Tensor& value) {
  return {std::move(key), Layout(value.sizes().vec()), value};
}

/// A plugin's tensor of this rank.
StatePiece kept_piece(const RunRecipe::KeptTensor& kept, const Mesh& mesh) {
  const std::string of_rank =
      kept.whose == Kept::per_rank ? " of rank " + std::to_string(mesh.world_rank()) : "";
  return whole("plugin/" + kept.name + of_rank, kept.view());
}

/// "dp=2, tp=2"
std::string text_of(const Mesh& mesh) {
  std::vector<std::string> dims;
  for (const auto& dim : mesh.dims())
    if (dim.size > 1) dims.push_back(dim.name + "=" + std::to_string(dim.size));
  return dims.empty() ? "one rank" : join(dims);
}

/// Only ranks of an equal mesh have the same parts of the training.
void refuse_another_mesh(const RunRecipe::KeptTensor& kept, const Mesh& mesh, const SavedState& saved) {
  const auto found = saved(kMesh);
  if (found.empty()) return;
  const Tensor bytes = found.front().value.to(at::kByte).contiguous();
  const std::string there(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                          static_cast<size_t>(bytes.numel()));
  if (there == text_of(mesh)) return;
  throw Error(ErrorCode::unsupported,
              "the saved '" + kept.name + "' has a tensor for each rank of another mesh: " +
                  printable(there) + " there, " + text_of(mesh) + " here",
              "continue on the same mesh, or start a new run");
}

/// The entries of an optimizer state that belong to a segment of its shard.
StatePiece entries(const OptimizerState& state, const Segment& segment) {
  const std::string key =
      state.is_parameter ? model_key(*segment.param) : optimizer_key(state, *segment.param);
  if (state.block == 0) return whole(key, state.value);
  const Layout layout = state.block == 1 ? segment.layout : segment.layout.in_blocks(state.block);
  return {key, layout, state.value.flatten().narrow(0, segment.at / state.block, layout.numel())};
}

/// Of the ranks that hold copies of a shard, the first one saves it.
bool saves(const Shard& shard, const Mesh& mesh) {
  return std::ranges::all_of(mesh.dims(), [&](const auto& dim) {
    return contains(shard.sharded_over, dim.name) || mesh.rank(dim.name) == 0;
  });
}

StatePiece parameter(const Shard& shard, const Segment& segment) {
  return {model_key(*segment.param), segment.layout, Shard::part(shard.data, segment)};
}

/// Whether the segment has the first element of its parameter. Its rank saves values of the whole parameter.
bool has_first_element(const Segment& segment) {
  const auto pieces = segment.layout.pieces();
  return !pieces.empty() &&
         std::ranges::all_of(pieces.front().box.begin, [](int64_t begin) { return begin == 0; });
}

int64_t entries_of(const OptimizerState& state, const Shard& shard) {
  return (shard.data.numel() + state.block - 1) / state.block;
}

/// The reason why a state is invalid, or "". `known`: the names seen before it.
std::string wrong_view(const OptimizerState& state, const Shard& shard, std::set<std::string>& known) {
  if (state.name.empty()) return "has no name";
  if (!known.insert(state.name).second) return "is listed twice";
  if (!state.value.defined()) return "has no tensor";
  if (state.block < 0) return "has a block of " + std::to_string(state.block) + " elements";
  if (state.is_parameter && state.block != 1) return "is the parameter, but its block is not 1";
  if (state.block == 0 && state.value.dim() > 0 && shard.segments.size() > 1)
    return "belongs to one parameter, but the shard has parts of several";
  if (state.block > 0 && state.value.numel() != entries_of(state, shard))
    return "has " + std::to_string(state.value.numel()) + " entries, but " +
           std::to_string(shard.data.numel()) + " elements in blocks of " + std::to_string(state.block) +
           " need " + std::to_string(entries_of(state, shard));
  return {};
}

/// A tensor of this rank that is part of the state.
struct Seen {
  const Segment& segment;
  StatePiece piece;
  bool whole = false;  ///< belongs to the whole parameter; exists on each rank that has a part of it
};

/// Visits every such tensor of a shard. Of a parameter with a wider copy, only the copy.
void visit(Session& session, Shard& shard, const std::function<void(const Seen&)>& see) {
  const auto states = optimizer_state(session, shard);
  for (const Segment& segment : shard.segments) {
    if (std::ranges::none_of(states, &OptimizerState::is_parameter))
      see({segment, parameter(shard, segment)});
    for (const auto& state : states) see({segment, entries(state, segment), state.block == 0});
  }
}

[[noreturn]] void refuse_shape(const std::string& key) {
  throw Error(ErrorCode::invalid_file, "the saved '" + key + "' has a different shape than in this model",
              "load it into the model that saved it");
}

void load(const StatePiece& mine, const SavedState& saved) {
  int64_t found = 0;
  for (const StatePiece& piece : saved(mine.key)) {
    if (piece.layout.shape() != mine.layout.shape()) refuse_shape(mine.key);
    found += mine.layout.copy(piece.layout, piece.value.contiguous(), mine.value);
  }
  if (found != mine.layout.numel())
    throw Error(ErrorCode::invalid_file,
                "the saved state has " + std::to_string(found) + " of the " +
                    std::to_string(mine.layout.numel()) + " elements of '" + mine.key +
                    "' that this rank needs",
                found == 0 ? "load a state of a run with the same plugins"
                           : "check that the parts of all ranks are present");
}

/// Gradients have the type of their parameter, unless their sum is kept in a wider type.
int64_t gradient_bytes(const Shard& shard) {
  if (shard.segments.empty()) return 0;
  const Tensor& leaf = shard.segments.front().param->leaf;
  const auto own = shard.data.scalar_type();
  const auto type = leaf.defined() && leaf.grad_dtype() ? at::promoteTypes(*leaf.grad_dtype(), own) : own;
  return shard.data.numel() * static_cast<int64_t>(at::elementSize(type));
}

int64_t parameter_bytes(Session& session) {
  std::set<const void*> known;
  int64_t bytes = 0;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.defined() && known.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  };
  for (const Param* param : session.params().all()) {
    add(param->leaf);
    std::ranges::for_each(param->stored, add);
    bytes += param->compute_copy.bytes();
  }
  for (const Shard& shard : session.data_parallel().shards()) add(shard.data);
  return bytes;
}
}  // namespace

std::vector<OptimizerState> optimizer_state(Session& session, const Shard& shard) {
  auto states = session.optimizer().state(shard);
  std::set<std::string> known;
  int64_t parameters = 0;
  for (const OptimizerState& state : states) {
    std::string wrong = wrong_view(state, shard, known);
    if (wrong.empty() && state.is_parameter && ++parameters > 1)
      wrong = "is the parameter, which is already listed";
    if (!wrong.empty())
      throw Error(ErrorCode::invalid_plugin,
                  "the optimizer of '" + session.recipe().optimizer.base().plugin + "' lists '" + state.name +
                      "' of '" + shard.segments.front().param->name + "', which " + wrong,
                  "list every tensor of a shard once in state() (optrush/optimizer.h)");
  }
  return states;
}

std::vector<StatePiece> state_to_save(Session& session, int64_t next_step,
                                      const std::optional<DataPosition>& read) {
  const at::NoGradGuard no_grad;
  std::vector<StatePiece> pieces;
  for (Shard& shard : session.data_parallel().shards())
    if (saves(shard, session.mesh()))
      visit(session, shard, [&](const Seen& seen) {
        if (seen.segment.param->counted && seen.piece.layout.numel() > 0 &&
            (!seen.whole || has_first_element(seen.segment)))
          pieces.push_back(seen.piece);
      });
  const bool first = session.mesh().world_rank() == 0;
  bool per_rank = false;
  for (const auto& kept : session.recipe().kept()) {
    per_rank |= kept.whose == Kept::per_rank;
    if (first || kept.whose == Kept::per_rank) pieces.push_back(kept_piece(kept, session.mesh()));
  }
  if (!first) return pieces;
  if (per_rank) {
    const std::string mesh = text_of(session.mesh());
    pieces.push_back(whole(kMesh, at::tensor(std::vector<uint8_t>(mesh.begin(), mesh.end()), at::kByte)));
  }
  const auto add = [&](const char* key, int64_t number) {
    pieces.push_back(whole(key, at::scalar_tensor(number, at::kLong)));
  };
  add(kStep, next_step);
  if (read) {
    add(kSamples, read->samples);
    add(kOrder, read->order);
  }
  return pieces;
}

std::optional<DataPosition> load_state(Session& session, const SavedState& saved) {
  const at::NoGradGuard no_grad;
  const EvaluatedParameters evaluated(session);
  for (Shard& shard : session.data_parallel().shards())
    visit(session, shard, [&](const Seen& seen) { load(seen.piece, saved); });
  for (Shard& shard : session.data_parallel().shards())
    if (std::ranges::any_of(session.optimizer().state(shard), &OptimizerState::is_parameter))
      // rounded to the parameter's type
      for (const Segment& segment : shard.segments) load(parameter(shard, segment), saved);
  for (const auto& kept : session.recipe().kept()) {
    if (kept.whose == Kept::per_rank) refuse_another_mesh(kept, session.mesh(), saved);
    load(kept_piece(kept, session.mesh()), saved);
  }
  const auto number = [&](const char* key) {
    const Tensor value = at::zeros({}, at::kLong);
    load(whole(key, value), saved);
    return value.item<int64_t>();
  };
  session.resume_at(number(kStep));
  if (saved(kSamples).empty()) return std::nullopt;
  return DataPosition{.samples = number(kSamples), .order = number(kOrder)};
}

SavedParameters::SavedParameters(const std::filesystem::path& folder, const Params& all)
    : state_(folder), folder_(folder.string()) {
  for (const auto& key : state_.keys())
    if (key.starts_with(kModel) && !all.contains(std::string_view(key).substr(kModel.size())))
      throw Error(ErrorCode::unknown_name,
                  "the state has '" + key + "', but the run's model and plugins have no such parameter",
                  "use the plugins of the training that saved it", folder_);
}

Tensor SavedParameters::find(const Param& param) const {
  const std::string key = model_key(param);
  if (!state_.contains(key)) return {};
  const Tensor value = state_.whole(key);
  if (value.sizes() != at::IntArrayRef(param.shape)) refuse_shape(key);
  return value;
}

ModelStateBytes model_state_bytes(Session& session) {
  ModelStateBytes bytes{.parameters = parameter_bytes(session)};
  // Several micro-batches add to each gradient before it is final.
  const bool adds_up = session.spec().train.accumulation > 1;
  int64_t largest_released = 0;
  for (const Shard& shard : session.data_parallel().shards()) {
    if (shard.released.empty() || adds_up)
      bytes.gradients += gradient_bytes(shard);
    else
      largest_released = std::max(largest_released, gradient_bytes(shard));
    for (const auto& state : optimizer_state(session, shard))
      if (state.block > 0 || state.value.dim() > 0)
        bytes.optimizer_state += static_cast<int64_t>(state.value.nbytes());
  }
  bytes.gradients += largest_released;
  return bytes;
}
}  // namespace optrush
