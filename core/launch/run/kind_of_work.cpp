#include "launch/run/kind_of_work.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>

namespace optrush {
namespace {
/// Parts of names in lower case, separated by spaces.
struct Parts {
  WorkKind work;
  std::string_view parts;
};
/// The first list with a part of the name decides. Attention precedes products because its kernels contain
/// names of product libraries; the loss precedes attention because both have a softmax.
constexpr Parts kPartsOfNames[] = {
    {WorkKind::communication, "nccl gloo: c10d::"},
    {WorkKind::optimizer, "adam"},
    {WorkKind::loss, "log_softmax logsoftmax nll_loss cross_entropy"},
    {WorkKind::attention, "scaled_dot_product flash fmha sdpa attention softmax"},
    {WorkKind::product,
     "gemm gemv gett_ cutlass cublas nvjet xmma splitk _linear_pointwise mkldnn_linear triton_tem_"},
};

// Operators of "aten::", without a final "_".
constexpr std::string_view kProducts =
    "_addmm_activation _grouped_mm _int_mm _scaled_grouped_mm _scaled_mm addbmm addmm addmv baddbmm bmm dot "
    "mm mv vdot";
constexpr std::string_view kComputeNothing =
    "_local_scalar_dense _reshape_alias _unsafe_view alias as_strided contiguous detach einsum empty "
    "empty_like empty_strided expand expand_as flatten is_nonzero item lift_fresh linear matmul movedim "
    "narrow new_empty new_empty_strided numpy_t permute promote_types reshape resize resolve_conj "
    "resolve_neg result_type select slice split split_with_sizes squeeze t to transpose unbind unflatten "
    "unsafe_split unsqueeze view view_as";

/// Starts of the names of what computes: operators, compiled code, and symbols and copies of a GPU. Other
/// names are of autograd's nodes, of Python and of ranges.
constexpr std::string_view kStarts =
    "aten:: prims:: optrush:: mkldnn:: quantized:: triton_ cpp_fused_ inductor:: ##_call_ void_ mem _z";

/// Whether any word of a list passes the test.
bool any_word(std::string_view words, const std::function<bool(std::string_view word)>& test) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (test(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

WorkKind kind_of_operator(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto is_name = [&](std::string_view word) { return word == name; };
  if (any_word(kProducts, is_name)) return WorkKind::product;
  return any_word(kComputeNothing, is_name) ? WorkKind::none : WorkKind::elementwise;
}
}  // namespace

WorkKind kind_of_work(std::string_view written) {
  constexpr std::string_view kAten = "aten::";
  std::string name(written);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return c == ' ' ? '_' : static_cast<char>(std::tolower(c)); });
  if (name.starts_with("autograd::") || name.starts_with("torch::autograd")) return WorkKind::none;
  for (const auto& [work, parts] : kPartsOfNames)
    if (any_word(parts, [&](std::string_view part) { return name.find(part) != std::string::npos; }))
      return work;
  if (name.starts_with(kAten)) return kind_of_operator(std::string_view(name).substr(kAten.size()));
  const bool computes = name.find("kernel") != std::string::npos ||
                        any_word(kStarts, [&](std::string_view start) { return name.starts_with(start); });
  return computes ? WorkKind::elementwise : WorkKind::none;
}

WorkKind kind_of_work(std::string_view name, WorkKind caller) {
  const WorkKind own = kind_of_work(name);
  if (own == WorkKind::communication || caller == WorkKind::none) return own;
  if (caller == WorkKind::elementwise) return own == WorkKind::none ? caller : own;
  return caller == WorkKind::loss && own == WorkKind::product ? own : caller;
}
}  // namespace optrush
