#include "spec/operator_spec.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
int64_t OperatorSpec::operands() const {
  if (op == "add_norm" || op == "position") return 2;
  if (op == "attention") return 3;         // q, k, v
  return op == "swiglu" ? repeat + 1 : 1;  // one gate, and one up projection for each repetition
}

const Fields<OperatorSpec>& operator_fields() {
  using T = OperatorSpec;
  constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow
  static const auto fields =
      Fields<T>()
          .required(&T::op, {.name = "op",
                             .doc = "which",
                             .choices = {"norm", "add_norm", "position", "attention", "swiglu", "linear",
                                         "mlp", "head_loss"}})
          .optional(&T::dim, {.name = "dim", .doc = "width of each input", .min = 1, .max = kLargest})
          .optional(&T::n_heads, {.name = "n_heads",
                                  .doc = "number of heads of position and attention; must divide dim",
                                  .min = 1,
                                  .max = kLargest})
          .optional(&T::ffn_dim,
                    {.name = "ffn_dim", .doc = "inner width of the operator mlp", .min = 1, .max = kLargest})
          .optional(&T::vocab_size, {.name = "vocab_size",
                                     .doc = "vocabulary of the operator head_loss",
                                     .min = 2,
                                     .max = kLargest})
          .optional(&T::repeat, {.name = "repeat",
                                 .doc = "calls per step, to reduce the share of other work",
                                 .min = 1,
                                 .max = 1000});
  return fields;
}

OperatorSpec operator_from_json(const Json& json, const std::string& where) {
  OperatorSpec spec = operator_fields().read(json, "model", where);
  const bool headed = spec.op == "position" || spec.op == "attention";
  if (headed && spec.dim % spec.n_heads != 0)
    throw Error(ErrorCode::invalid_value,
                "model.dim (" + std::to_string(spec.dim) + ") is not a multiple of model.n_heads (" +
                    std::to_string(spec.n_heads) + ")",
                "change one of them", where);
  if (spec.op == "position" && spec.dim / spec.n_heads % 2 != 0)
    throw Error(ErrorCode::invalid_value,
                "heads of " + std::to_string(spec.dim / spec.n_heads) + " cannot be rotated in pairs",
                "make model.dim / model.n_heads even", where);
  if (spec.op == "head_loss" && spec.repeat != 1)
    throw Error(ErrorCode::conflict,
                "model.repeat does not apply to head_loss, whose output is a single number", "leave it out",
                where);
  return spec;
}

Json to_json(const OperatorSpec& spec) { return operator_fields().write(spec); }
}  // namespace optrush
