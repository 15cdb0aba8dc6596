#include "experiment/grid_view.h"

#include "spec/fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
const Fields<GridView>& grid_view_fields() {
  using T = GridView;
  static const auto fields =
      Fields<T>()
          .optional(&T::axes, {.name = "axes", .doc = "their names"})
          .optional(&T::columns, {.name = "columns", .doc = "of its table"})
          .optional(&T::against, {.name = "against", .doc = "choice that the others are compared with"})
          .optional(&T::x, {.name = "x", .doc = "numeric setting that curves are drawn over"})
          .optional(&T::curves, {.name = "curves", .doc = "drawn over x"});
  return fields;
}
}  // namespace

Json to_json(const GridView& view) { return grid_view_fields().write(view); }
GridView grid_view_from_json(const Json& json, const std::string& where) {
  return grid_view_fields().read(json, "view", where);
}
}  // namespace optrush
