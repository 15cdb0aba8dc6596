#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <new>
#include <stdexcept>

#include "../support/error_of.h"
#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;

const std::string kPlaceOfCall = "plugin 'x' in apply";

/// The message of an `Exception` at the host.
template <class Exception>
std::string message_thrown_as(const std::function<void()>& code) {
  try {
    call_plugin(kPlaceOfCall, code);
  } catch (const Exception& e) {
    return e.what();
  }
  return {};
}

TEST(CallPlugin, PutsThePlaceInFront) {
  EXPECT_EQ(message_thrown_as<Error>([] { throw std::runtime_error("no"); }), kPlaceOfCall + ": no");
  EXPECT_EQ(message_thrown_as<Error>([] { throw Error("no", "try"); }), kPlaceOfCall + ": no\n  hint: try");
  EXPECT_EQ(message_thrown_as<Error>([] { throw 42; }),
            kPlaceOfCall + ": threw an object that is not a std::exception");
}

TEST(CallPlugin, KeepsTheCodeOfAnError) {
  const auto code = [](const std::function<void()>& action) {
    const std::string error = testing::error_of([&] { call_plugin(kPlaceOfCall, action); });
    return error.substr(0, error.find(':'));
  };
  EXPECT_EQ(code([] { throw Error(ErrorCode::conflict, "no"); }), "conflict");
  EXPECT_EQ(code([] { throw Error("no"); }), "unsupported");
  EXPECT_EQ(code([] { throw Skip(ErrorCode::unsupported, "no"); }), "unsupported");
  EXPECT_EQ(code([] { throw std::runtime_error("no"); }), "invalid_plugin");
  EXPECT_EQ(code([] { throw 42; }), "invalid_plugin");
}

TEST(CallPlugin, KeepsAnExistingPlace) {
  EXPECT_EQ(message_thrown_as<Error>([] { throw Error("no", "", "layers.3"); }), "layers.3: no");
}

TEST(CallPlugin, SkippedStaysSkipped) {
  EXPECT_EQ(message_thrown_as<Skip>([] { throw Skip("no GPU", "buy"); }),
            kPlaceOfCall + ": no GPU\n  hint: buy");
}

TEST(CallPlugin, OutOfMemoryStaysOutOfMemory) {
  EXPECT_THAT(
      message_thrown_as<c10::OutOfMemoryError>([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "full"); }),
      AllOf(HasSubstr("full"), HasSubstr(kPlaceOfCall)));
  EXPECT_NE(message_thrown_as<std::bad_alloc>([] { throw std::bad_alloc(); }), "");
}
}  // namespace
}  // namespace optrush
