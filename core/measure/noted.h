#pragma once
#include <string_view>

namespace optrush {
/// Names under which observers of the dispatcher see what functions say of themselves (optrush/costs.h).
inline constexpr std::string_view kNotedFlops = "optrush::flops";    ///< {flops}
inline constexpr std::string_view kNotedKernel = "optrush::kernel";  ///< {name, bytes, launches}
/// Around attention inside of documents: as many FLOPs for each pair of positions (Segments::pairs).
inline constexpr std::string_view kInDocuments = "optrush::documents";
}  // namespace optrush
