#include "io/state_folder.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::optrush::testing::error_of;
using ::optrush::testing::is_error;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StateFolderTest : public ::testing::Test {
 protected:
  /// Elements [begin, end) of a tensor of 3 x 4. Each element equals its index.
  static StatePiece piece(int64_t begin, int64_t end) {
    return {"model/w", Layout({3, 4}).range(begin, end), at::arange(begin, end, at::kDouble)};
  }
  void save(int64_t step, const std::vector<std::vector<StatePiece>>& by_rank) const {
    for (size_t rank = 0; rank < by_rank.size(); ++rank)
      write_state_part(folder_, step, static_cast<int64_t>(rank), by_rank[rank]);
    commit_state(folder_, step, static_cast<int64_t>(by_rank.size()));
  }
  void damage(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file) << text;
  }
  /// A rank's file with one tensor of 12 elements and this index.
  std::string error_with_index(const std::string& index) const {
    write_safetensors(folder_ / "step-00000001/rank-00000.safetensors", {{"t", at::zeros({12})}},
                      {{"optrush_state", index}});
    return error_of([&] { StateFolder{folder_}; });
  }

  const optrush::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "state";
};

TEST_F(StateFolderTest, PiecesOfAllRanksMakeTheWhole) {
  save(7, {{piece(0, 5), piece(9, 12)}, {piece(5, 9)}});
  const StateFolder state(folder_);
  EXPECT_EQ(state.step(), 7);
  EXPECT_EQ(state.keys(), std::vector<std::string>{"model/w"});
  EXPECT_TRUE(at::equal(state.whole("model/w"), at::arange(12, at::kDouble).view({3, 4})));
  for (const StatePiece& each : state.read("model/w"))
    EXPECT_EQ(each.layout.shape(), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(state.read("model/v").empty());
}

TEST_F(StateFolderTest, ColumnsOfATensorAreRead) {
  const Tensor all = at::arange(12, at::kFloat).view({3, 4});
  const Layout left = Layout({3, 4}).cut(1, 0, 3), right = Layout({3, 4}).cut(1, 3, 4);
  save(1, {{{"w", left, left.take(all).contiguous()}}, {{"w", right, right.take(all).contiguous()}}});
  EXPECT_TRUE(at::equal(StateFolder(folder_).whole("w"), all));
}

TEST_F(StateFolderTest, ACountThatEveryRankHasIsReadOnce) {
  const StatePiece count{"optimizer/step/w", Layout(std::vector<int64_t>{}), at::scalar_tensor(5.0)};
  save(1, {{count}, {count}});
  EXPECT_EQ(StateFolder(folder_).read(count.key).size(), 1u);
  EXPECT_EQ(StateFolder(folder_).whole(count.key).item<double>(), 5);
}

TEST_F(StateFolderTest, RankWithNothingToSaveIsAccepted) {
  save(1, {{piece(0, 12)}, {}});
  EXPECT_EQ(StateFolder(folder_).whole("model/w").numel(), 12);
}

TEST_F(StateFolderTest, PreviousStateCountsUntilEveryPartExists) {
  save(1, {{piece(0, 12)}});
  write_state_part(folder_, 2, 0, {piece(0, 5)});
  EXPECT_EQ(StateFolder(folder_).step(), 1);
  EXPECT_THAT(error_of([&] { bytes_of_state(folder_, 2, 2); }),
              AllOf(HasSubstr("rank 1 saved its part"), HasSubstr("--out")));
  EXPECT_EQ(StateFolder(folder_).step(), 1);
  write_state_part(folder_, 2, 1, {piece(5, 12)});
  EXPECT_GT(bytes_of_state(folder_, 2, 2), 12 * 8);
  EXPECT_EQ(StateFolder(folder_).step(), 1);
  commit_state(folder_, 2, 2);
  EXPECT_EQ(StateFolder(folder_).step(), 2);
  EXPECT_FALSE(fs::exists(folder_ / "step-00000001"));
}

TEST_F(StateFolderTest, MissingElementIsReported) {
  save(1, {{piece(0, 11)}});
  EXPECT_THAT(error_of([&] { StateFolder(folder_).whole("model/w"); }), HasSubstr("11 of the 12 elements"));
}

TEST_F(StateFolderTest, DamageNamesTheFile) {
  EXPECT_THAT(error_of([&] { StateFolder{folder_}; }), HasSubstr("no state was saved in"));
  save(1, {{piece(0, 12)}});
  const std::string head = read_file(folder_ / "state.json");
  for (const char* text : {"[]", "{}", R"({"schema_version": 2, "step": 1, "ranks": 1})",
                           R"({"schema_version": 1, "step": -1, "ranks": 1})",
                           R"({"schema_version": 1, "step": 1, "ranks": 0})", "{"}) {
    damage("state.json", text);
    EXPECT_THAT(error_of([&] { StateFolder{folder_}; }), HasSubstr("state.json")) << text;
  }
  damage("state.json", R"({"schema_version": 1, "step": 1, "ranks": 2})");
  EXPECT_THAT(error_of([&] { StateFolder{folder_}; }), is_error("missing_file", "rank-00001.safetensors"));
  damage("state.json", head);
  write_safetensors(folder_ / "step-00000001/rank-00000.safetensors", {{"t", at::zeros({12})}});
  EXPECT_THAT(error_of([&] { StateFolder{folder_}; }), HasSubstr("has no index of a state"));
  const std::pair<const char*, const char*> wrong[] = {
      {"[]", "index of the state is"},
      {R"({"t": {}})", "invalid entry 't'"},
      {R"({"t": {"key": "w", "shape": [-1], "boxes": []}})", "invalid shape [-1]"},
      {R"({"t": {"key": "w", "shape": [9000000000000000000, 9], "boxes": []}})", "invalid shape"},
      {R"({"t": {"key": "w", "shape": [12], "boxes": [[[0, 13]]]}})", "invalid box"},
      {R"({"t": {"key": "w", "shape": [12], "boxes": [[[5, 4]]]}})", "invalid box"},
      {R"({"t": {"key": "w", "shape": [12], "boxes": [[]]}})", "invalid box"},
      {R"({"t": {"key": "w", "shape": [12], "boxes": [[[0, 11]]]}})", "its boxes have 11 elements"},
      {R"({"u": {"key": "w", "shape": [12], "boxes": [[[0, 12]]]}})", "no tensor is named 'u'"},
  };
  for (const auto& [index, part] : wrong)
    EXPECT_THAT(error_with_index(index), AllOf(HasSubstr(part), HasSubstr("rank-00000.safetensors")))
        << index;
  EXPECT_EQ(error_with_index(R"({"t": {"key": "w", "shape": [12], "boxes": [[[0, 12]]]}})"), "");
}
}  // namespace
}  // namespace optrush
