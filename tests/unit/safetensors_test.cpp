#include "io/safetensors.h"

#include <ATen/Functions.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using optrush::testing::error_of;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

std::span<const std::byte> bytes_of(const std::string& content) {
  return std::as_bytes(std::span(content.data(), content.size()));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

struct Refusal {
  std::string name, file, message;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name.
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.message; }

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheFileAndTheProblem) {
  try {
    parse_safetensors(bytes_of(GetParam().file), "x.safetensors");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(GetParam().message));
    EXPECT_EQ(e.where(), "x.safetensors");
  }
}

const std::string kOneFloat = entry("F32", "[1]", "[0,4]");

// The names are error classes of the reference implementation.
INSTANTIATE_TEST_SUITE_P(
    Safetensors, Refused,
    ::testing::Values(
        Refusal{"HeaderTooSmall", "1234567", "7 bytes are too few"},
        Refusal{"HeaderTooSmallEmpty", "", "0 bytes are too few"},
        Refusal{"HeaderTooLarge", file_of("{}", "").replace(0, 8, std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)),
                "a header of 100000001 bytes; at most"},
        Refusal{"HeaderLengthWraps", std::string(8, '\xff') + "{}", "a header of 18446744073709551615 bytes"},
        Refusal{"InvalidHeaderLength", file_of("{}", "").replace(0, 1, "\x03"),
                "a header of 3 bytes in a file of 10"},
        Refusal{"InvalidHeaderStart", file_of(" {}", ""), "does not begin with '{'"},
        Refusal{"InvalidHeaderStartEmpty", file_of("", ""), "does not begin with '{'"},
        Refusal{"InvalidHeaderUtf8", file_of("{\"\xff\":1}", ""), "not valid JSON"},
        Refusal{"InvalidHeaderDeserialization", file_of("{\"a\":", ""), "not valid JSON"},
        Refusal{"InvalidHeaderTrailing", file_of("{} x", ""), "not valid JSON"},
        Refusal{"DeepNesting", file_of("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}", ""),
                "nested deeper"},
        Refusal{"DuplicateName", file_of("{\"a\":" + kOneFloat + ",\"a\":" + kOneFloat + "}", "1234"),
                "duplicate JSON key 'a'"},
        Refusal{"DuplicateKey",
                file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"),
                "duplicate JSON key 'dtype'"},
        Refusal{"MetadataNotStrings", file_of(R"({"__metadata__":{"a":1}})", ""),
                "must map names to strings"},
        Refusal{"MetadataNotObject", file_of(R"({"__metadata__":"a"})", ""), "must map names to strings"},
        Refusal{"EntryNotObject", file_of(R"({"a":[]})", ""), "tensor 'a' must have named fields"},
        Refusal{"EntryMissingKey", file_of(R"({"a":{"dtype":"F32","shape":[1]}})", ""),
                "has no 'data_offsets'"},
        Refusal{"EntryUnknownKey",
                file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":[1]}})", "1234"),
                "unknown key 'stride'"},
        Refusal{"UnknownDtype", file_of("{\"a\":" + entry("F33", "[1]", "[0,4]") + "}", "1234"),
                "dtype \"F33\""},
        Refusal{"DtypeNotRead", file_of("{\"a\":" + entry("F4", "[4]", "[0,4]") + "}", "1234"),
                "supported: F64, F32, F16, BF16, F8_E4M3"},
        Refusal{"ShapeNoList", file_of("{\"a\":" + entry("F32", "1", "[0,4]") + "}", "1234"),
                "shape that is not a list"},
        Refusal{"ShapeNegative", file_of("{\"a\":" + entry("F32", "[-1]", "[0,4]") + "}", "1234"),
                "not a non-negative integer"},
        Refusal{"ShapeFraction", file_of("{\"a\":" + entry("F32", "[1.0]", "[0,4]") + "}", "1234"),
                "not a non-negative integer"},
        Refusal{"OffsetsNoPair", file_of("{\"a\":" + entry("F32", "[1]", "[0,4,8]") + "}", "1234"),
                "that are not a pair"},
        Refusal{"OffsetHuge",
                file_of("{\"a\":" + entry("F32", "[1]", "[0,99999999999999999999]") + "}", "1234"),
                "not a non-negative integer"},
        Refusal{"TensorInvalidInfo", file_of("{\"a\":" + entry("F32", "[2]", "[0,4]") + "}", "1234"),
                "has 4 bytes of data, but its shape and dtype need 8"},
        Refusal{"TensorLongerThanItsShape",
                file_of("{\"a\":" + entry("F32", "[1]", "[0,8]") + "}", "12345678"),
                "has 8 bytes of data, but its shape and dtype need 4"},
        Refusal{"ValidationOverflow",
                file_of("{\"a\":" + entry("F32", "[4611686018427387904,4]", "[0,4]") + "}", "1234"),
                "overflows"},
        Refusal{
            "ValidationOverflowEmpty",
            file_of("{\"a\":" + entry("F32", "[4611686018427387904,4611686018427387904,0]", "[0,0]") + "}",
                    ""),
            "overflows"},
        Refusal{"InvalidOffsetReversed", file_of("{\"a\":" + entry("F32", "[1]", "[4,0]") + "}", "1234"),
                "has data_offsets [4,0]"},
        Refusal{"InvalidOffsetOutside", file_of("{\"a\":" + entry("F32", "[2]", "[0,8]") + "}", "1234"),
                "in 4 bytes of data"},
        Refusal{"InvalidOffsetOverlap",
                file_of("{\"a\":" + kOneFloat + ",\"b\":" + entry("F32", "[1]", "[2,6]") + "}", "123456"),
                "must not overlap"},
        Refusal{"InvalidOffsetSame", file_of("{\"a\":" + kOneFloat + ",\"b\":" + kOneFloat + "}", "1234"),
                "must not overlap"},
        Refusal{"InvalidOffsetHole",
                file_of("{\"a\":" + kOneFloat + ",\"b\":" + entry("F32", "[1]", "[5,9]") + "}", "123456789"),
                "leave holes"},
        Refusal{"InvalidOffsetStart", file_of("{\"a\":" + entry("F32", "[1]", "[4,8]") + "}", "12345678"),
                "leave holes"},
        Refusal{"MetadataIncompleteBuffer", file_of("{\"a\":" + kOneFloat + "}", "12345"),
                "the tensors end at byte"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(parse_safetensors(bytes_of(file_of("{}", "")), "").entries.empty());
  const auto only_text =
      parse_safetensors(bytes_of(file_of(R"({"__metadata__":{"format":"pt"}}   )", "")), "");
  EXPECT_TRUE(only_text.entries.empty());
  EXPECT_EQ(only_text.metadata, (SafetensorsMetadata{{"format", "pt"}}));
  const auto header =
      "{\"z\":" + entry("U8", "[0,7]", "[4,4]") + ",\"b\":" + entry("F32", "[]", "[0,4]") + "}";
  const auto entries = parse_safetensors(bytes_of(file_of(header, "1234")), "").entries;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_TRUE(entries[0].shape.empty());
  EXPECT_EQ(entries[0].end - entries[0].begin, 4u);
  EXPECT_EQ(entries[1].begin, entries[1].end);
}

class SafetensorsOnDisk : public ::testing::Test {
 protected:
  const optrush::TemporaryFolder temporary_;
  const fs::path path_ = temporary_.path() / "test.safetensors";
};

TEST_F(SafetensorsOnDisk, EveryDtypeComesBackBitForBit) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kBFloat16,
                          at::kHalf, at::kFloat, at::kDouble})
    tensors.emplace_back(c10::toString(type), at::arange(6, at::kInt).view({2, 3}).remainder(2).to(type));
  tensors.emplace_back("scalar", at::scalar_tensor(2.5, at::kDouble));
  tensors.emplace_back("empty", at::empty({3, 0}, at::kFloat));
  tensors.emplace_back("transposed", at::arange(6, at::kFloat).view({2, 3}).t());
  const double tiny = 1 + std::numeric_limits<double>::epsilon();
  tensors.emplace_back("double", at::full({1}, tiny, at::kDouble));
  write_safetensors(path_, tensors, {{"format", "pt"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = file.read(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
  EXPECT_EQ(file.read("double").item<double>(), tiny);
  const std::string bytes = read_file(path_);
  for (const auto& found : parse_safetensors(bytes_of(bytes), "").entries)
    EXPECT_EQ(found.begin % c10::elementSize(scalar_type(found, "")), 0u) << found.name;
}

/// Counts the bytes that this thread holds from LibTorch's allocator of the CPU.
class HeldBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

TEST_F(SafetensorsOnDisk, CopiesAreBoundedAndKeepEveryByte) {
  constexpr int64_t kMiB = 1 << 20;
  // Their copies would have 40, 40, 36 and 18 MiB.
  const Tensor wide = at::arange(10 * kMiB, at::kInt).view({5, 2 * kMiB}),
               few = at::arange(10 * kMiB, at::kInt);
  const std::vector<std::pair<std::string, Tensor>> tensors = {
      {"transposed", wide.t()},                    // many short rows
      {"long rows", few.view({5 * kMiB, 2}).t()},  // two rows, each longer than a buffer
      {"repeated", at::arange(3, at::kInt).view({3, 1, 1}).expand({3, 3, kMiB})},
      {"step", at::arange(9 * kMiB, at::kInt).slice(0, 0, 9 * kMiB, 2)},  // one axis
      {"few", at::arange(6, at::kInt).view({2, 3}).t()},
      {"none", at::empty({3, 0}).t()},
      {"plain", few}};
  const auto held = std::make_shared<HeldBytes>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
    write_safetensors(path_, tensors);
  }
  EXPECT_LE(held->most(), 17 * kMiB);
  const SafetensorsFile file(path_);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(file.read(name), tensor)) << name;
}

TEST_F(SafetensorsOnDisk, ErrorsNameTheFile) {
  write_safetensors(path_, {{"weight", at::zeros({2})}});
  const SafetensorsFile file(path_);
  EXPECT_THAT(error_of([&] { file.read("wieght"); }),
              AllOf(::testing::HasSubstr(path_.string()), ::testing::HasSubstr("did you mean 'weight'")));
  EXPECT_THAT(error_of([&] { SafetensorsFile("nowhere.safetensors"); }),
              ::testing::HasSubstr("nowhere.safetensors"));
  EXPECT_THAT(error_of([&] {
                write_safetensors(path_, {{"a", at::zeros({1})}, {"a", at::zeros({1})}});
              }),
              ::testing::HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(error_of([&] {
                write_safetensors(path_, {{"a", at::zeros({1}, at::kComplexFloat)}});
              }),
              ::testing::HasSubstr("no dtype for ComplexFloat"));
}
}  // namespace
}  // namespace optrush
