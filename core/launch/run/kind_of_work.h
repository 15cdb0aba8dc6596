#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace optrush {
/// What the time of a step is used for, in the order of the report. `elementwise`: everything that computes
/// or copies and has no other kind. `none`: calls that compute nothing, such as views and autograd's own
/// work.
enum class WorkKind : uint8_t { product, attention, loss, elementwise, optimizer, communication, none };
inline constexpr size_t kWorks = 6;  ///< without `none`
inline constexpr std::array<const char*, kWorks> kWorkNames = {"product",     "attention", "loss",
                                                               "elementwise", "optimizer", "communication"};

/// The kind of a kernel of a GPU or an operator of LibTorch, by its name in a trace.
WorkKind kind_of_work(std::string_view name);
/// The kind of what `name` does when it is called by something of the kind `caller`. Within attention all is
/// attention; a product within a loss is a product.
WorkKind kind_of_work(std::string_view name, WorkKind caller);
}  // namespace optrush
