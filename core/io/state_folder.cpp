#include "io/state_folder.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "base/files.h"
#include "optrush/error.h"
#include "spec/state_files.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char* kIndex = "optrush_state";  // key in the metadata of a file
constexpr int64_t kSchemaVersion = 1, kMostRanks = 1 << 20, kMostSteps = int64_t{1} << 52;
constexpr const char* kCure = "save the state again, or start from a different state";

[[noreturn]] void refuse_index(const std::string& what, const std::string& where) {
  throw Error(ErrorCode::invalid_file, what, kCure, where);
}

/// Reads a box of a tensor of `shape` as a layout.
Layout box_from_json(const Json& json, const std::vector<int64_t>& shape, const std::string& where) {
  const auto fail = [&] { refuse_index("the index of the state has an invalid box " + shown(json), where); };
  if (!json.is_array() || json.size() != shape.size()) fail();
  Layout box(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Json& range = json[axis];
    if (!range.is_array() || range.size() != 2 || !range[0].is_number_unsigned() ||
        !range[1].is_number_unsigned())
      fail();
    const auto begin = range[0].get<uint64_t>(), end = range[1].get<uint64_t>();
    if (begin > end || end > static_cast<uint64_t>(shape[axis])) fail();
    box = box.cut(static_cast<int64_t>(axis), static_cast<int64_t>(begin), static_cast<int64_t>(end));
  }
  return box;
}

Json to_json(const Layout::Box& box) {
  Json json = Json::array();
  for (size_t axis = 0; axis < box.begin.size(); ++axis) json.push_back({box.begin[axis], box.end[axis]});
  return json;
}

std::vector<int64_t> shape_from_json(const Json& json, const std::string& where) {
  std::vector<int64_t> shape;
  int64_t elements = 1;
  const auto fail = [&] {
    refuse_index("the index of the state has an invalid shape " + shown(json), where);
  };
  if (!json.is_array()) fail();
  for (const Json& size : json) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) fail();
    shape.push_back(size.get<int64_t>());
    if (__builtin_mul_overflow(elements, std::max<int64_t>(shape.back(), 1), &elements)) fail();
  }
  return shape;
}
}  // namespace

SafetensorsContent state_part_content(const std::vector<StatePiece>& pieces) {
  NamedTensors tensors;
  Json index = Json::object();
  for (const StatePiece& piece : pieces) {
    // A rank may have several pieces of a tensor.
    const std::string name = piece.key + "#" + std::to_string(tensors.size());
    Json boxes = Json::array();
    for (const auto& part : piece.layout.pieces()) boxes.push_back(to_json(part.box));
    index[name] = {{"key", piece.key}, {"shape", piece.layout.shape()}, {"boxes", boxes}};
    tensors.emplace_back(name, piece.value.flatten());
  }
  return SafetensorsContent(std::move(tensors), {{kIndex, index.dump()}});
}

void write_state_part(const fs::path& folder, int64_t step, int64_t rank,
                      const std::vector<StatePiece>& pieces) {
  const SafetensorsContent content = state_part_content(pieces);
  fs::create_directories(state_of_step(folder, step));
  content.write(state_part(folder, step, rank));
}

int64_t bytes_of_state(const fs::path& folder, int64_t step, int64_t ranks) {
  int64_t bytes = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const fs::path file = state_part(folder, step, rank);
    if (!fs::exists(file))
      throw Error(ErrorCode::file_access,
                  "rank " + std::to_string(rank) + " saved its part of the state in a different folder",
                  "give --out a folder on a file system that all machines share", file.string());
    bytes += static_cast<int64_t>(fs::file_size(file));
  }
  return bytes;
}

void commit_state(const fs::path& folder, int64_t step, int64_t ranks) {
  const fs::path present = state_of_step(folder, step);
  // After a loss of power either the old state or the new one is whole: the new files have names on the disk
  // before the head names them, and the head is there before the old files go.
  for (const fs::path& changed : {present, folder, fs::absolute(folder).parent_path()}) sync_folder(changed);
  write_json(state_head(folder), {{"schema_version", kSchemaVersion}, {"step", step}, {"ranks", ranks}});
  sync_folder(folder);
  std::vector<fs::path> before;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("step-") && entry.path() != present)
      before.push_back(entry.path());
  for (const auto& old : before) fs::remove_all(old);
}

StateFolder::StateFolder(const fs::path& folder) : folder_(folder) {
  const fs::path head = state_head(folder);
  if (!is_there(head))
    throw Error(ErrorCode::missing_file, "no state was saved in '" + folder.string() + "'",
                "give the folder 'state' of a run with save = { every = ... }");
  const Json json = read_json(head);
  const auto number = [&](const char* name, int64_t least, int64_t most) {
    if (!json.is_object() || !json.contains(name))
      refuse_index("'" + std::string(name) + "' is missing", head.string());
    return checked({.type = "integer", .min = least, .max = most}, json[name], name, head.string())
        .get<int64_t>();
  };
  number("schema_version", kSchemaVersion, kSchemaVersion);
  step_ = number("step", 0, kMostSteps);
  const int64_t ranks = number("ranks", 1, kMostRanks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const fs::path file = state_part(folder, step_, rank);
    read_index(files_.try_emplace(file, file).first->second, file.string());
  }
}

void StateFolder::read_index(const SafetensorsFile& file, const std::string& where) {
  const auto found = file.metadata().find(kIndex);
  if (found == file.metadata().end()) refuse_index("this file has no index of a state", where);
  const Json index = parse_json(found->second, where);
  if (!index.is_object()) refuse_index("the index of the state is invalid: " + shown(index), where);
  for (const auto& [name, entry] : index.items()) {
    if (!entry.is_object() || !entry.contains("key") || !entry["key"].is_string() ||
        !entry.contains("boxes") || !entry["boxes"].is_array() || !entry.contains("shape"))
      refuse_index("the index of the state has an invalid entry '" + name + "': " + shown(entry), where);
    const auto shape = shape_from_json(entry["shape"], where);
    Part part{.file = &file, .tensor = name};
    int64_t elements = 0;
    for (const Json& box : entry["boxes"])
      elements += part.boxes.emplace_back(box_from_json(box, shape, where)).numel();
    const auto& stored = file.entry(name);
    if (stored.shape != std::vector<int64_t>{elements})
      refuse_index("'" + name + "' has the shape " + Json(stored.shape).dump() + ", but its boxes have " +
                       std::to_string(elements) + " elements",
                   where);
    parts_[entry["key"]].push_back(std::move(part));
  }
}

std::vector<std::string> StateFolder::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, parts] : parts_) keys.push_back(key);
  return keys;
}

std::vector<StatePiece> StateFolder::read(const std::string& key) const {
  std::vector<StatePiece> pieces;
  const auto found = parts_.find(key);
  if (found == parts_.end()) return pieces;
  for (const Part& part : found->second) {
    const Tensor all = part.file->read(part.tensor);
    int64_t at = 0;
    for (const Layout& box : part.boxes) {
      pieces.push_back({key, box, all.narrow(0, at, box.numel())});
      at += box.numel();
    }
    // A value for a whole parameter, such as a step count, is saved by each rank that has a part of it.
    if (!pieces.empty() && pieces.back().layout.shape().empty()) break;
  }
  return pieces;
}

Tensor StateFolder::whole(const std::string& key) const {
  const auto pieces = read(key);
  if (pieces.empty())
    throw Error(ErrorCode::invalid_file, "the state has no '" + key + "'", kCure, folder_.string());
  const Layout all(pieces.front().layout.shape());
  const Tensor value = at::empty(all.shape(), pieces.front().value.scalar_type());
  int64_t found = 0;
  for (const StatePiece& piece : pieces) found += all.copy(piece.layout, piece.value, value);
  if (found != all.numel())
    throw Error(ErrorCode::invalid_file,
                "the state has " + std::to_string(found) + " of the " + std::to_string(all.numel()) +
                    " elements of '" + key + "'",
                kCure, folder_.string());
  return value;
}
}  // namespace optrush
