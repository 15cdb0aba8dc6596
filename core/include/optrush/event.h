#pragma once
#include <cstdint>
#include <string_view>

namespace optrush {
/// Lifecycle of a run in a worker, in this order. apply() comes before all of it and touches no device.
enum class Event : uint8_t {
  meshed,    ///< process groups exist
  declared,  ///< parameters are known by name and shape, without values: add, freeze, tie, split, encode here
  placed,    ///< values exist
  ready,     ///< every slot is resolved for every site; data parallelism and optimizer are built
  step_begin,
  step_end,
  finished
};
std::string_view to_string(Event);
}  // namespace optrush
