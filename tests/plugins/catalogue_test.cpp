#include <gmock/gmock.h>

#include <cstdlib>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "plugin/description.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::is_error;

/// Folders with copies of fixtures, and a search path for the duration of the test.
class CatalogueTest : public ::testing::Test {
 protected:
  CatalogueTest() {
    fs::create_directory(first_);
    fs::create_directory(second_);
    fs::permissions(first_, fs::perms::owner_all);
    fs::permissions(second_, fs::perms::owner_all);
  }
  ~CatalogueTest() override { ::unsetenv("OPTRUSH_PLUGIN_PATH"); }

  static fs::path copy(const std::string& fixture, const fs::path& folder) {
    const fs::path file = folder / (fixture + ".so");
    fs::copy_file(fs::path(testing::build_folder()) / "tests" / "plugins" / (fixture + ".so"), file);
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }
  static std::string reason(const Catalogue& catalogue, const fs::path& file) {
    for (const auto& unusable : catalogue.unusable())
      if (unusable.file == file) return unusable.reason;
    return {};
  }

  TemporaryFolder folder_;
  const fs::path first_ = folder_ / "first", second_ = folder_ / "second";
};

TEST_F(CatalogueTest, GivenFoldersPrecedeThoseOfTheEnvironment) {
  const auto winner = copy("described", first_), loser = copy("described", second_);
  ::setenv("OPTRUSH_PLUGIN_PATH", (":" + second_.string() + ":").c_str(), 1);
  const auto catalogue = Catalogue::find({first_.string()});
  EXPECT_EQ(catalogue.at("described").file, winner);
  EXPECT_EQ(reason(catalogue, loser), "hidden by the plugin of the same name in " + winner.string());
  EXPECT_EQ(Catalogue::find({}).at("described").file, loser);
}

TEST_F(CatalogueTest, FolderGivenTwiceIsNotAConflict) {
  const auto file = copy("described", first_);
  const auto catalogue = Catalogue::find({first_.string(), first_.string()});
  EXPECT_EQ(catalogue.at("described").file, file);
  EXPECT_EQ(reason(catalogue, file), "");
}

TEST_F(CatalogueTest, EnvironmentRequiresAbsolutePaths) {
  copy("described", first_);
  const auto before = fs::current_path();
  fs::current_path(first_);
  ::setenv("OPTRUSH_PLUGIN_PATH", ".", 1);
  const auto catalogue = Catalogue::find({});
  fs::current_path(before);
  EXPECT_THAT(reason(catalogue, "."), HasSubstr("the working directory is never searched"));
  EXPECT_THAT(error_of([&] { catalogue.at("described"); }), HasSubstr("no plugin 'described'"));
}

TEST_F(CatalogueTest, WorldWritableFoldersAreRefused) {
  const auto file = copy("described", first_);
  fs::permissions(first_, fs::perms::others_write, fs::perm_options::add);
  const auto catalogue = Catalogue::find({first_.string()});
  EXPECT_EQ(reason(catalogue, file), "every user may write to '" + first_.string() +
                                         "', and could run code in the next experiment\n  hint: chmod o-w '" +
                                         first_.string() + "'");
}

TEST_F(CatalogueTest, WorldWritableFilesAreRefused) {
  const auto file = copy("described", first_);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(reason(Catalogue::find({first_.string()}), file),
              HasSubstr("every user may write to '" + file.string()));
}

TEST_F(CatalogueTest, LinkIsTrustedLikeItsTarget) {
  copy("described", second_);
  fs::permissions(second_, fs::perms::others_write, fs::perm_options::add);
  fs::create_symlink(second_ / "described.so", first_ / "link.so");
  fs::create_symlink(second_ / "absent.so", first_ / "nowhere.so");
  const auto catalogue = Catalogue::find({first_.string()});
  EXPECT_THAT(reason(catalogue, first_ / "link.so"),
              HasSubstr("every user may write to '" + second_.string()));
  EXPECT_THAT(reason(catalogue, first_ / "nowhere.so"), HasSubstr("No such file"));
}

TEST_F(CatalogueTest, UnusableFileHasAReason) {
  write_file(first_ / "text.so", "not a plugin");
  copy("other_abi", first_);
  const auto catalogue = Catalogue::find({first_.string(), (folder_ / "third").string()});
  EXPECT_EQ(
      error_of([&] { catalogue.at("text"); }),
      "invalid_plugin: " + (first_ / "text.so").string() +
          ": plugin 'text' cannot be used: not an ELF file\n  hint: a plugin is a shared object made by "
          "optrush_add_plugin()");
  EXPECT_THAT(error_of([&] { catalogue.at("other_abi"); }), HasSubstr("torch: plugin 1.0.0"));
  EXPECT_THAT(error_of([&] { catalogue.at("something_else"); }),
              AllOf(HasSubstr("no plugin 'something_else'"),
                    HasSubstr("not searched: " + (folder_ / "third").string() + ": cannot be searched")));
}

TEST_F(CatalogueTest, NamesTheNearestPlugin) {
  copy("described", first_);
  EXPECT_THAT(error_of([&] { Catalogue::find({first_.string()}).at("descirbed"); }),
              is_error("unknown_name", "'descirbed'", "'described'"));
  EXPECT_EQ(
      error_of([&] { Catalogue::find({first_.string()}).at("freeze_blocks"); }),
      "unknown_name: no plugin 'freeze_blocks'\n  hint: your own plugins need --plugin-path FOLDER; optrush "
      "plugins lists the others");
}
}  // namespace
}  // namespace optrush
