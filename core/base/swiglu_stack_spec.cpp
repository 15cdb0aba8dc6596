#include "base/spec_fields.h"
#include "base/spec_json.h"

namespace optrush {
const Fields<SwigluStackSpec>& swiglu_stack_fields() {
  using T = SwigluStackSpec;
  constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow
  static const auto fields =
      Fields<T>()
          .optional(&T::dim, {.name = "dim", .doc = "width of the stack", .min = 1, .max = kLargest})
          .optional(&T::ffn_dim,
                    {.name = "ffn_dim", .doc = "inner width of each SwiGLU", .min = 1, .max = kLargest})
          .optional(&T::n_layers, {.name = "n_layers", .doc = "MLPs", .min = 1, .max = 10000})
          .optional(&T::init_std, {.name = "init_std",
                                   .doc = "standard deviation of the initial weights; 0: uniform in "
                                          "±1/√inputs, as torch.nn.Linear",
                                   .min = 0});
  return fields;
}

SwigluStackSpec swiglu_stack_from_json(const Json& json, const std::string& where) {
  return swiglu_stack_fields().read(json, "model", where);
}
Json to_json(const SwigluStackSpec& spec) { return swiglu_stack_fields().write(spec); }
}  // namespace optrush
