#include "experiment/grid_view.h"

#include "base/fields.h"
#include "base/spec_json.h"

namespace optrush {
namespace {
const Fields<GridView>& grid_view_fields() {
  using T = GridView;
  static const auto fields =
      Fields<T>()
          .optional(&T::axes, {.name = "axes", .doc = "their names"})
          .optional(&T::columns, {.name = "columns", .doc = "of its table", .choices = grid_column_names()})
          .optional(&T::against, {.name = "against", .doc = "choice that the others are compared with"})
          .optional(&T::x, {.name = "x", .doc = "numeric setting that curves are drawn over"})
          .optional(&T::curves, {.name = "curves", .doc = "drawn over x", .choices = grid_column_names()});
  return fields;
}
}  // namespace

const std::vector<GridColumn>& grid_columns() {
  static const std::vector<GridColumn> columns = {
      {"tokens_per_second", "tokens/s"},
      {"step_time", "step"},
      {"data_time", "data"},
      {"forward_time", "forward"},
      {"backward_time", "backward"},
      {"optimizer_time", "optimizer"},
      {"compile_time", "compile"},
      {"peak_memory", "peak active memory"},
      {"activations", "activations, predicted"},
      {"flops_per_second", "FLOP/s"},
      {"mfu", "MFU"},
      {"hfu", "HFU"},
      {"forward_bandwidth", "forward GB/s"},
      {"backward_bandwidth", "backward GB/s"},
      {"forward_bandwidth_share", "forward, of the bandwidth"},
      {"backward_bandwidth_share", "backward, of the bandwidth"},
      {"forward_flops", "forward FLOP/s"},
      {"backward_flops", "backward FLOP/s"},
      {"intensity", "FLOPs a byte"},
      {"exposed_time", "exposed communication"},
      {"algorithm_bandwidth", "algorithm GB/s"},
      {"bus_bandwidth", "bus GB/s"},
      {"collective_time", "a collective"},
      {"loss", "final loss"},
      {"validation_loss", "validation loss"},
      {"time_to_loss", "time to loss"},
      {"steps_to_loss", "steps to loss"},
  };
  return columns;
}

std::vector<std::string> grid_column_names() {
  std::vector<std::string> names;
  for (const auto& column : grid_columns()) names.push_back(column.name);
  return names;
}

Json to_json(const GridView& view) { return grid_view_fields().write(view); }
GridView grid_view_from_json(const Json& json, const std::string& where) {
  return grid_view_fields().read(json, "view", where);
}
}  // namespace optrush
