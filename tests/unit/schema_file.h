#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "support/folders.h"

namespace optrush::testing {
/// Expects that docs/schema/NAME.schema.json is this schema with an $id and the title.
/// OPTRUSH_UPDATE_GOLDENS=1 writes it.
inline void expect_schema(const std::string& name, const char* title, const Json& schema) {
  Json whole = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"$id", "optrush/" + name},
                {"title", title}};
  whole.update(schema);
  const std::filesystem::path file = tests_folder() + "/../docs/schema/" + name + ".schema.json";
  if (std::getenv("OPTRUSH_UPDATE_GOLDENS") != nullptr) write_json(file, whole);
  EXPECT_EQ(read_json(file), whole) << "run this test once with OPTRUSH_UPDATE_GOLDENS=1";
}
}  // namespace optrush::testing
