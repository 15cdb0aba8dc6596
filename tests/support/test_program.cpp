#include "support/test_program.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace optrush::testing {
namespace {
/// `path` ends with one of the names of `list`, which are separated by commas.
bool is_in(std::string_view list, std::string_view path) {
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    if (path == name || path.ends_with("/" + std::string(name))) return true;
    list.remove_prefix(std::min(list.size(), name.size() + 1));
  }
  return false;
}

/// Restores environment variables after each case, as if each case had its own process.
class KeptEnvironment final : public ::testing::EmptyTestEventListener {
  using Variables = std::map<std::string, std::string>;

  static Variables now() {
    Variables all;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string_view text = *variable;
      const size_t end = text.find('=');
      all.emplace(text.substr(0, end), end == text.npos ? "" : text.substr(end + 1));
    }
    return all;
  }
  void OnTestStart(const ::testing::TestInfo&) override { before_ = now(); }
  void OnTestEnd(const ::testing::TestInfo&) override {
    const Variables after = now();
    for (const auto& [name, value] : after)
      if (!before_.contains(name)) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_)
      if (const auto found = after.find(name); found == after.end() || found->second != value)
        ::setenv(name.c_str(), value.c_str(), 1);
  }

  Variables before_;
};

/// Excludes the cases of all other files from the filter.
void leave_out_other_files(std::string_view files) {
  std::string others;
  bool some = false;
  const auto& tests = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const auto& suite = *tests.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (is_in(files, test.file()))
        some = true;
      else
        others += std::string(":") + suite.name() + "." + test.name();
    }
  }
  if (!some) {
    std::cerr << "this program has no test of a file " << files << '\n';
    std::exit(1);
  }
  std::string& filter = ::testing::GTEST_FLAG(filter);
  if (!others.empty() && filter.find('-') == std::string::npos) others[0] = '-';
  filter += others;
}
}  // namespace

int run_test_program(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  constexpr std::string_view kOption = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kOption)) {
      std::cerr << "unknown option " << argument
                << ": there are --file=NAME_test.cpp[,NAME_test.cpp] and those of --help\n";
      return 1;
    }
    leave_out_other_files(argument.substr(kOption.size()));
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<KeptEnvironment>().release());
  return RUN_ALL_TESTS();
}
}  // namespace optrush::testing
