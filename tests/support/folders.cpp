#include "folders.h"

namespace optrush::testing {
std::string tests_folder() { return OPTRUSH_TESTS_DIR; }
std::string build_folder() { return OPTRUSH_BUILD_DIR; }
}  // namespace optrush::testing
