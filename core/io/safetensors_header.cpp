#include "io/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/files.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace {
static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");
constexpr uint64_t kMaxHeader = 100'000'000;

/// The types of the format whose elements are whole bytes.
constexpr std::pair<const char*, int64_t> kElementBytes[] = {
    {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"F8_E8M0", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},      {"U64", 8},
    {"U32", 4},     {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"C64", 8}};

/// Reads the entry of a tensor. Each error names the tensor.
class EntryReader {
 public:
  EntryReader(const std::string& name, const Json& info, const std::string& origin)
      : info_(info), subject_("tensor '" + name + "'"), origin_(origin) {
    check_keys(info, {"dtype", "shape", "data_offsets"}, "key", subject_, origin);
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!info.contains(key)) fail("has no '" + std::string(key) + "'");
  }

  /// The name of the dtype and the bytes of an element.
  std::pair<std::string, int64_t> dtype() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : kElementBytes) {
      if (info_["dtype"] == name) return {name, bytes};
      names.emplace_back(name);
    }
    throw Error(ErrorCode::unsupported,
                subject_ + " has dtype " + shown(info_["dtype"]) + ", which is not supported",
                "supported: " + join(names), origin_);
  }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape;
    if (!info_["shape"].is_array()) fail("has a shape that is not a list: " + shown(info_["shape"]));
    for (const auto& size : info_["shape"]) shape.push_back(natural(size, "a size"));
    return shape;
  }
  std::pair<uint64_t, uint64_t> offsets() const {
    const Json& offsets = info_["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2)
      fail("has data_offsets that are not a pair: " + shown(offsets));
    return {natural(offsets[0], "an offset"), natural(offsets[1], "an offset")};
  }
  /// For the overflow check, zeros count as ones, because strides of an empty tensor are also products.
  uint64_t byte_size(const std::vector<int64_t>& shape, int64_t element) const {
    int64_t bytes = element;
    bool empty = false;
    for (const int64_t size : shape) {
      empty |= size == 0;
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
        fail("has a shape whose size overflows: " + shown(info_["shape"]));
    }
    return empty ? 0 : static_cast<uint64_t>(bytes);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_file, subject_ + " " + what, {}, origin_);
  }

 private:
  int64_t natural(const Json& json, const std::string& what) const {
    if (!json.is_number_unsigned() || json.get<uint64_t>() > std::numeric_limits<int64_t>::max())
      fail("has " + what + " that is not a non-negative integer: " + shown(json));
    return json.get<int64_t>();
  }

  const Json& info_;
  std::string subject_;
  const std::string& origin_;
};

std::string_view header_of(std::span<const std::byte> file, const std::string& origin) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_file, "not a safetensors file: " + what, "complete the download", origin);
  };
  uint64_t size = 0;
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs"))
    throw Error(ErrorCode::invalid_file, "the file is a Git LFS pointer, not the weights", "run git lfs pull",
                origin);
  if (file.size() < sizeof size) fail(std::to_string(file.size()) + " bytes are too few for a header");
  std::memcpy(&size, file.data(), sizeof size);
  if (size > kMaxHeader) fail("a header of " + std::to_string(size) + " bytes; at most 100 MB are allowed");
  if (size > file.size() - sizeof size)
    fail("a header of " + std::to_string(size) + " bytes in a file of " + std::to_string(file.size()));
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + sizeof size, size);
  if (!header.starts_with('{')) fail("its header does not begin with '{'");
  return header;
}

SafetensorsMetadata metadata_from_json(const Json& metadata, const std::string& origin) {
  const bool strings =
      metadata.is_object() && std::ranges::all_of(metadata, [](const Json& v) { return v.is_string(); });
  if (!strings)
    throw Error(ErrorCode::invalid_file,
                "'__metadata__' must map names to strings, but is " + shown(metadata), {}, origin);
  return metadata.get<SafetensorsMetadata>();
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& origin) {
  const std::string_view text = header_of(file, origin);
  const size_t data_begin = sizeof(uint64_t) + text.size(), data_size = file.size() - data_begin;
  const Json header = parse_json(text, origin);
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      metadata = metadata_from_json(info, origin);
      continue;
    }
    const EntryReader reader(name, info, origin);
    const auto [dtype, element] = reader.dtype();
    SafetensorsEntry entry{.name = name, .dtype = dtype, .shape = reader.shape()};
    const auto [begin, end] = reader.offsets();
    if (end < begin || end > data_size)
      reader.fail("has data_offsets " + shown(info["data_offsets"]) + " in " + std::to_string(data_size) +
                  " bytes of data");
    if (const uint64_t size = reader.byte_size(entry.shape, element); end - begin != size)
      reader.fail("has " + std::to_string(end - begin) + " bytes of data, but its shape and dtype need " +
                  std::to_string(size));
    entry.begin = data_begin + begin;
    entry.end = data_begin + end;
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  size_t reached = data_begin;
  for (const auto& entry : entries) {
    if (entry.begin != reached)
      throw Error(ErrorCode::invalid_file,
                  "tensor '" + entry.name + "' begins at byte " + std::to_string(entry.begin - data_begin) +
                      " of the data, but the tensor before it ends at " +
                      std::to_string(reached - data_begin),
                  "tensors must not overlap or leave holes", origin);
    reached = entry.end;
  }
  if (reached != file.size())
    throw Error(ErrorCode::invalid_file,
                "the tensors end at byte " + std::to_string(reached) + ", but the file has " +
                    std::to_string(file.size()),
                {}, origin);
  return {std::move(entries), std::move(metadata)};
}

SafetensorsView::SafetensorsView(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  SafetensorsHeader header = parse_safetensors(file_.bytes(), path_);
  for (auto& entry : header.entries) entries_.emplace(entry.name, std::move(entry));
  metadata_ = std::move(header.metadata);
}

std::vector<std::string> SafetensorsView::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsEntry& SafetensorsView::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(ErrorCode::unknown_name, "no tensor is named '" + std::string(name) + "'",
                did_you_mean(name, names()), path_);
  return found->second;
}

std::span<const std::byte> SafetensorsView::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(entry.begin, entry.end - entry.begin);
}
}  // namespace optrush
