#include "spec/operator_spec.h"
#include "optrush/error.h"
#include "spec/collective_spec.h"

namespace optrush {
namespace {
void check_operator(const OperatorSpec& spec) {
  const bool headed = spec.op == "position" || spec.op == "attention";
  if (headed && spec.dim % spec.n_heads != 0)
    throw Error(ErrorCode::invalid_value,
                "model.dim (" + std::to_string(spec.dim) + ") is not a multiple of model.n_heads (" +
                    std::to_string(spec.n_heads) + ")",
                "change one of them");
  if (spec.op == "position" && spec.dim / spec.n_heads % 2 != 0)
    throw Error(ErrorCode::invalid_value,
                "heads of " + std::to_string(spec.dim / spec.n_heads) + " cannot be rotated in pairs",
                "make model.dim / model.n_heads even");
  if (spec.op == "head_loss" && spec.repeat != 1)
    throw Error(ErrorCode::conflict,
                "model.repeat does not apply to head_loss, whose output is a single number", "leave it out");
}
}  // namespace

int64_t OperatorSpec::operands() const {
  if (op == "add_norm" || op == "position") return 2;
  if (op == "attention") return 3;         // q, k, v
  return op == "swiglu" ? repeat + 1 : 1;  // one gate, and one up projection for each repetition
}

Record<OperatorSpec> record_of(const OperatorSpec*) {
  using T = OperatorSpec;
  constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow
  return Record<T>::given("model")
      .field(
          "op", &T::op, "which",
          {.required = true,
           .choices = {"norm", "add_norm", "position", "attention", "swiglu", "linear", "mlp", "head_loss"}})
      .field("dim", &T::dim, "width of each input", {.min = 1, .max = kLargest})
      .field("n_heads", &T::n_heads, "number of heads of position and attention; must divide dim",
             {.min = 1, .max = kLargest})
      .field("ffn_dim", &T::ffn_dim, "inner width of the operator mlp", {.min = 1, .max = kLargest})
      .field("vocab_size", &T::vocab_size, "vocabulary of the operator head_loss",
             {.min = 2, .max = kLargest})
      .field("repeat", &T::repeat, "calls per step, to reduce the share of other work",
             {.min = 1, .max = 1000})
      .then(check_operator);
}

Record<CollectiveSpec> record_of(const CollectiveSpec*) {
  using T = CollectiveSpec;
  return Record<T>::given("model")
      .field("op", &T::op, "which",
             {.required = true,
              .choices = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"}})
      .field("bytes", &T::bytes,
             "bytes of the larger of a rank's input and output, as in nccl-tests; rounded up to an equal "
             "number of fp32 elements per rank",
             {.min = 4, .max = int64_t{1} << 36})
      .field("repeat", &T::repeat, "calls per step, to reduce the share of other work",
             {.min = 1, .max = 100000});
}
}  // namespace optrush
