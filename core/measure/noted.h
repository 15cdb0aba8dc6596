#pragma once
#include <string_view>

namespace optrush {
/// Names under which observers of the dispatcher see what functions say of themselves (optrush/forecast.h).
inline constexpr std::string_view kNotedFlops = "optrush::flops";  ///< {flops}
/// {bytes, launches}; the kernel's name follows, so that a trace shows it.
inline constexpr std::string_view kNotedKernel = "optrush::kernel::";
/// {flops}: so many of those that are counted follow from the documents' lengths, as many for each pair of
/// positions (Segments::pairs).
inline constexpr std::string_view kDocumentFlops = "optrush::document_flops";
}  // namespace optrush
