// Random damage to what strangers write: plugin files, options, specs. Each input must give a value or an
// Error; with the sanitizers on, also no bad memory access.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/files.h"
#include "base/spec_json.h"
#include "optrush/error.h"
#include "optrush/options.h"
#include "optrush/spec.h"
#include "plugin/description.h"
#include "plugin/elf_note.h"

namespace optrush {
namespace {
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : engine_(seed) {}
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(engine_); }

  /// `bytes` with one to four small changes, most of them at the positions that `interesting` chooses.
  template <class Position>
  std::string binary(std::string bytes, Position interesting) {
    static constexpr uint64_t kEdges[] = {
        0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, ~0ULL};
    for (size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
      const size_t at = interesting(*this) % bytes.size();
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 2: {
          const uint64_t value = kEdges[below(std::size(kEdges))];
          const size_t width = std::min<size_t>(size_t{1} << below(4), bytes.size() - at);
          bytes.replace(at, width, reinterpret_cast<const char*>(&value), width);
          break;
        }
        default:
          if (below(8) == 0) bytes.resize(at);
      }
    }
    return bytes;
  }

  /// `json` with one value somewhere in it replaced, removed, or added under a damaged key.
  void json(Json& json) {
    if (json.is_structured() && !json.empty() && below(4) != 0) {
      auto it = json.begin();
      std::advance(it, below(json.size()));
      if (below(6) == 0 && json.is_object())
        json[it.key() + "x"] = value();
      else if (below(8) == 0)
        json.erase(it);
      else
        this->json(*it);
      return;
    }
    json = value();
  }

 private:
  Json value() {
    static const std::vector<Json> values = {Json(),
                                             true,
                                             0,
                                             1,
                                             -1,
                                             3,
                                             0.5,
                                             1e308,
                                             -0.0,
                                             INT64_MAX,
                                             INT64_MIN,
                                             UINT64_MAX,
                                             "",
                                             "rank",
                                             "fp32",
                                             "text",
                                             "\xff",
                                             Json::array(),
                                             Json::object(),
                                             Json::array({1, "a"}),
                                             {{"a", {{"b", 1}}}},
                                             std::string(1000, 'x')};
    return values[below(values.size())];
  }
  std::mt19937_64 engine_;
};

TEST(Fuzz, ElfNote) {
  const std::string whole = read_file(OPTRUSH_BUILD_DIR "/tests/plugins/described.so");
  const size_t note = whole.find(std::string("optrush\0", 8));
  ASSERT_NE(note, std::string::npos);
  size_t read = 0, refused = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Mutator mutator(seed);
    const std::string bytes = mutator.binary(whole, [&](Mutator& m) {
      switch (m.below(4)) {
        case 0:
          return m.below(64);  // the header
        case 1:
          return whole.size() - 1 - m.below(64 * 32);  // the table of sections
        case 2:
          return note - 12 + m.below(400);  // the note
        default:
          return m.below(whole.size());
      }
    });
    std::istringstream file(bytes);
    try {
      parse_description(read_elf_note(file, "x.so"), "x.so");
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 1000U) << "the damage is so heavy that nothing is read";
  EXPECT_GT(refused, 1000U) << "the damage reaches nothing";
}

/// Damages `start` again and again; `read` must refuse or return a value that is written as it was read.
template <class Read>
void fuzz_json(const Json& start, Read read) {
  size_t accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Mutator mutator(seed);
    Json json = start;
    for (size_t n = 1 + mutator.below(3); n > 0; --n) mutator.json(json);
    try {
      const Json once = read(json);
      EXPECT_EQ(read(once).dump(-1, ' ', true, Json::error_handler_t::replace),
                once.dump(-1, ' ', true, Json::error_handler_t::replace));
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100U);
  EXPECT_GT(refused, 100U);
}

TEST(Fuzz, RunSpecJson) {
  RunSpec spec;
  spec.plugins.push_back({"lora", {{"rank", 8}, {"modules", {"wq"}}}});
  spec.data = {.kind = "text", .path = "/docs", .extensions = {".h"}};
  spec.model = to_json(LlamaSpec{});
  fuzz_json(to_json(spec), [](const Json& json) { return to_json(run_spec_from_json(json, "x")); });
}

TEST(Fuzz, Options) {
  const std::vector<OptionSchema> schemas = {
      {.name = "rank", .type = "integer", .doc = "d", .fallback = 8, .min = 1, .max = 64},
      {.name = "alpha", .type = "number", .doc = "d", .fallback = 1.0, .min = 0.0},
      {.name = "on", .type = "boolean", .doc = "d", .fallback = false},
      {.name = "mode", .type = "string", .doc = "d", .fallback = "a", .choices = {"a", "b"}},
      {.name = "modules", .type = "list", .doc = "d", .fallback = Json::array()}};
  const Json start = {{"rank", 4}, {"alpha", 0.5}, {"on", true}, {"mode", "b"}, {"modules", {"x"}}};
  fuzz_json(start, [&](const Json& json) { return Options(schemas, json, "x").json(); });
}

TEST(Fuzz, OptionSchemaJson) {
  const Json start = {{"name", "rank"}, {"type", "integer"}, {"default", 8},
                      {"min", 1},       {"max", 64},         {"doc", "d"}};
  fuzz_json(start, [](const Json& json) -> Json {
    const auto schema = OptionSchema::parse(json, "x");
    return {{"name", schema.name}, {"type", schema.type}, {"default", schema.fallback}, {"doc", schema.doc}};
  });
}

TEST(Fuzz, JsonText) {
  const std::string start = to_json(RunSpec{}).dump();
  size_t accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Mutator mutator(seed);
    const std::string text = mutator.binary(start, [&](Mutator& m) { return m.below(start.size()); });
    try {
      run_spec_from_json(parse_json(text, "x"), "x");
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100U);
  EXPECT_GT(refused, 100U);
}
}  // namespace
}  // namespace optrush
