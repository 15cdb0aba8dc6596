#pragma once
#include <string_view>

namespace optrush {
/// Names of the events with which functions report their costs to observers of the dispatcher
/// (optrush/forecast.h).
inline constexpr std::string_view kNotedFlops = "optrush::flops";  ///< {flops}
/// {bytes, launches}; followed by the kernel's name, so that a trace shows it
inline constexpr std::string_view kNotedKernel = "optrush::kernel::";
/// {flops}: the part of the counted FLOPs that depends on the documents' lengths, in proportion to pairs of
/// positions (Segments::pairs)
inline constexpr std::string_view kDocumentFlops = "optrush::document_flops";
}  // namespace optrush
