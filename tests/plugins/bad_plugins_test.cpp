// Errors for plugin files that are broken, invalid or built for another host. No file is loaded.
#include <elf.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/host/abi.h"
#include "plugin/description.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;

const fs::path kFixtures = fs::path(testing::build_folder()) / "tests" / "plugins";

fs::path fixture(const std::string& name) { return kFixtures / (name + ".so"); }

std::string refused(const fs::path& file) {
  return error_of([&] { check_compatible(read_description(file)); });
}

/// The error for a file with these bytes.
std::string refused_bytes(std::string_view bytes) {
  const TemporaryFolder folder;
  write_file(folder / "x.so", bytes);
  return refused(folder / "x.so");
}

/// described.so with one field of its ELF header changed.
template <class T>
std::string with_header(T Elf64_Ehdr::*field, T value) {
  std::string bytes = read_file(fixture("described"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.*field = value;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return refused_bytes(bytes);
}

TEST(ReadDescription, ReadsEveryField) {
  const PluginDescription plugin = read_description(fixture("described"));
  EXPECT_EQ(plugin.file, fixture("described"));
  EXPECT_EQ(plugin.api, host_api());
  EXPECT_EQ(plugin.abi, host_abi());
  EXPECT_EQ(plugin.name, "described");
  EXPECT_EQ(plugin.version, "1.2.3");
  EXPECT_EQ(plugin.summary, "A complete description");
  EXPECT_EQ(plugin.doc, "Every field is given.");
  EXPECT_EQ(plugin.kind, "parallelism");
  EXPECT_EQ(plugin.effect, Effect::rounding);
  EXPECT_THAT(plugin.conflicts, ElementsAre("other"));
  EXPECT_THAT(plugin.requirements, ElementsAre("first", "second"));
  ASSERT_EQ(plugin.options.size(), 2U);
  EXPECT_EQ(plugin.options[0].fallback, 8);
  EXPECT_THAT(plugin.options[1].choices, ElementsAre("wq", "wv"));
  EXPECT_EQ(refused(fixture("described")), "");
}

TEST(BadPlugin, AnotherApiIsRefused) {
  const auto file = fixture("other_api").string();
  EXPECT_EQ(refused(file),
            "invalid_plugin: " + file +
                ": plugin 'other_api' was built for a different host\n"
                "  plugin API: plugin 999, this program 0\n"
                "  hint: rebuild it with optrush_add_plugin() against this build (docs/plugins/abi.md)");
  EXPECT_EQ(read_description(file).version, "9.0");
}

TEST(BadPlugin, AnotherAbiIsRefusedWithEveryDifference) {
  const std::string message = refused(fixture("other_abi"));
  EXPECT_THAT(message, AllOf(HasSubstr("compiler: plugin clang 99, this program "),
                             HasSubstr("libstdc++'s C++11 ABI: plugin 0, this program 1"),
                             HasSubstr("C++ standard: plugin 17, this program "),
                             HasSubstr("headers of the SDK: plugin none, this program "),
                             HasSubstr("torch: plugin 1.0.0, this program "),
                             HasSubstr("rocm: plugin 6.2, this program none"),
                             HasSubstr("cuda: plugin none, this program "),
                             HasSubstr("hint: rebuild it with optrush_add_plugin()")));
  EXPECT_THAT(message, Not(HasSubstr("plugin API:")));
}

TEST(BadPlugin, OtherHeadersAreRefused) {
  const auto file = fixture("other_headers").string();
  EXPECT_EQ(refused(file),
            "invalid_plugin: " + file +
                ": plugin 'other_headers' was built for a different host\n"
                "  headers of the SDK: plugin 0000000000000000, this program " OPTRUSH_SDK_HASH
                "\n"
                "  hint: rebuild it with optrush_add_plugin() against this build (docs/plugins/abi.md)");
}

/// A plugin's tag is made from the compiler's macros, not from CMake's variables.
TEST(Abi, TagHasTheValuesOfTheCompiler) {
  const std::string abi = host_abi();
  EXPECT_THAT(abi, HasSubstr(", c++ " + std::to_string(__cplusplus) + "L, "));
  EXPECT_THAT(abi, HasSubstr(", cxx11abi " + std::to_string(_GLIBCXX_USE_CXX11_ABI) + ", "));
  EXPECT_THAT(abi, ::testing::EndsWith(", sdk " OPTRUSH_SDK_HASH));
}

TEST(BadPlugin, OtherFilesAreRefused) {
  EXPECT_THAT(refused(fixture("no_note")), is_error("invalid_plugin", "note.optrush"));
  EXPECT_THAT(refused(fixture("two_notes")), HasSubstr("describes 2 plugins"));
  EXPECT_THAT(refused_bytes("#!/bin/sh\necho hello\n"), HasSubstr("not an ELF file"));
  EXPECT_THAT(refused_bytes(""), HasSubstr("not an ELF file"));
  EXPECT_THAT(refused(kFixtures), HasSubstr("cannot be read"));
  EXPECT_THAT(refused(fixture("absent")), HasSubstr("cannot be read"));
}

TEST(BadPlugin, AnotherMachineOrFileTypeIsRefused) {
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_machine, Elf64_Half{EM_RISCV}),
              HasSubstr("built for another machine (ELF machine 243"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_type, Elf64_Half{ET_REL}), HasSubstr("not a shared object"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_shoff, Elf64_Off{0}), HasSubstr("has no section table"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_shentsize, Elf64_Half{1}), HasSubstr("has no section table"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_shstrndx, Elf64_Half{60000}), HasSubstr("has no section table"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_shoff, Elf64_Off{~0ULL - 8}), HasSubstr("truncated"));
  EXPECT_THAT(with_header(&Elf64_Ehdr::e_shnum, Elf64_Half{60000}),
              AnyOf(HasSubstr("truncated"), HasSubstr("damaged")));
}

TEST(BadPlugin, TruncatedFilesAreRefused) {
  const std::string whole = read_file(fixture("described"));
  EXPECT_THAT(refused_bytes(whole.substr(0, 3)), HasSubstr("not an ELF file"));
  for (const size_t size :
       {size_t{4}, size_t{63}, size_t{64}, whole.size() / 4, whole.size() / 2, whole.size() - 1})
    EXPECT_THAT(refused_bytes(whole.substr(0, size)), HasSubstr("truncated")) << size << " bytes";
}

TEST(BadPlugin, InvalidDescriptionIsRefused) {
  EXPECT_THAT(refused(fixture("duplicate_keys")), is_error("invalid_file", "duplicate_keys.so", "'name'"));
  EXPECT_THAT(refused(fixture("bad_schema")), is_error("invalid_value", "'default'", "'rank'", "1", "0"));
}

/// The error for a description after this build's identity.
std::string described(const std::string& json) {
  const Json identity = {{"api", host_api()}, {"abi", host_abi()}};
  return error_of([&] { parse_description(identity.dump() + "\n" + json, "p.so"); });
}

TEST(ParseDescription, RefusesInvalidFields) {
  const std::string start =
      R"({"name": "a", "version": "1", "summary": "s", "kind": "optimization", "effect": "exact")";
  EXPECT_EQ(described(start + "}"), "");
  EXPECT_THAT(described(""), HasSubstr("p.so: not valid JSON"));
  EXPECT_THAT(described("[]"), HasSubstr("the description must have named fields"));
  EXPECT_THAT(described("{}"), is_error("missing_value", "description.name"));
  EXPECT_THAT(described(start + R"(, "option": []})"), is_error("unknown_name", "'option'", "'options'"));
  EXPECT_THAT(described(start + R"(, "options": {"rank": 1}})"),
              HasSubstr("must be a list of option schemas"));
  EXPECT_THAT(described(start + R"(, "options": [{"name": "b", "type": "string", "doc": "d"},
                                                  {"name": "b", "type": "string", "doc": "d"}]})"),
              is_error("invalid_plugin", "'b'"));
  EXPECT_THAT(
      described(
          R"({"name": "A b", "version": "1", "summary": "s", "kind": "optimization", "effect": "exact"})"),
      is_error("invalid_plugin", "'_'", "'A b'"));
  EXPECT_THAT(
      described(R"({"name": "a", "version": "1", "summary": "s", "kind": "fast", "effect": "exact"})"),
      is_error("invalid_value", "'optimization'", "'parallelism'", "\"fast\""));
  EXPECT_THAT(
      described(
          R"({"name": "a", "version": "1", "summary": "s", "kind": "optimization", "effect": "exakt"})"),
      HasSubstr("did you mean 'exact'?"));
}

TEST(ParseDescription, ValidatesFormsOfTheCheck) {
  const std::string start =
      R"({"name": "a", "version": "1", "summary": "s", "kind": "optimization", "effect": "exact",
          "options": [{"name": "rank", "type": "integer", "min": 1, "doc": "d"}], "check": )";
  EXPECT_EQ(described(start + R"([{"options": {"rank": 2}, "with": ["b"]}, {"options": {"rank": 3}}]})"), "");
  EXPECT_THAT(described(start + "[]}"), HasSubstr("must be a list of at least one form"));
  EXPECT_THAT(described(start + R"([{"option": {"rank": 2}}]})"), is_error("unknown_name", "'options'"));
  EXPECT_THAT(described(start + R"([{"options": {"rnk": 2}}]})"),
              is_error("unknown_name", "p.so", "'rnk'", "'rank'"));
  EXPECT_THAT(described(start + R"([{"options": {"rank": 0}}]})"),
              HasSubstr("must be an integer of at least 1"));
}

TEST(ParseDescription, RequiresAnIdentity) {
  EXPECT_THAT(error_of([] { parse_description("{}\n{}", "p.so"); }),
              is_error("missing_value", "identity.api"));
  EXPECT_THAT(error_of([] { parse_description("", "p.so"); }), HasSubstr("not valid JSON"));
}

TEST(ReadDescription, DoesNotRunThePlugin) {
  const TemporaryFolder folder;
  const fs::path mark = folder / "mark";
  ::setenv("OPTRUSH_FIXTURE_MARK", mark.c_str(), 1);
  EXPECT_EQ(refused(fixture("side_effect")), "");
  Catalogue::find({kFixtures.string()});
  ::unsetenv("OPTRUSH_FIXTURE_MARK");
  EXPECT_FALSE(fs::exists(mark));
}
}  // namespace
}  // namespace optrush
