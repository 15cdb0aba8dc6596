#include <algorithm>

#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr int64_t kMostRanks = 65536;
constexpr int64_t kMostSampled = 4096;
constexpr int64_t kMostSequences = 1'000'000;  // limit for micro-batch, accumulation and validation

void check_train(const DataSpec& data, const std::string& where) {
  const auto ignored = [&](const std::string& field) {
    return Error(ErrorCode::conflict, "data." + field + " would be ignored: data.kind is '" + data.kind + "'",
                 {}, where);
  };
  if (data.kind == "random" && !data.path.empty()) throw ignored("path");
  if (data.kind != "random" && data.path.empty())
    throw Error(ErrorCode::missing_value, "data.path is missing",
                "give the file or folder for data.kind '" + data.kind + "'", where);
  if (data.kind != "text" && data.kind != "documents" && data.kind != "preferences" &&
      !data.extensions.empty())
    throw ignored("extensions");
  for (const auto& extension : data.extensions)
    if (extension.size() < 2 || extension[0] != '.')
      throw Error(ErrorCode::invalid_value, "data.extensions has '" + extension + "'",
                  "start an extension with a dot, for example '.h'", where);
}

void check_train(const TrainSpec& train, const std::string& where) {
  if (train.beta1 == 1 || train.beta2 == 1)
    throw Error(ErrorCode::invalid_value, "train.beta1 and train.beta2 must be below 1",
                "use values from 0 to below 1: AdamW divides by 1 - beta", where);
  if (train.overfit > 0 && train.epochs > 0)
    throw Error(ErrorCode::conflict,
                "train.epochs is " + std::to_string(train.epochs) +
                    ", but a run that overfits one batch has no epochs",
                "set train.epochs or train.overfit to 0", where);
  if (train.lr_decay == "none" && (train.lr_steps != 0 || train.lr_min != 0))
    throw Error(ErrorCode::conflict,
                std::string("train.") + (train.lr_steps != 0 ? "lr_steps" : "lr_min") +
                    " would be ignored: train.lr_decay is 'none'",
                "set train.lr_decay to linear or cosine, or train.lr_steps and train.lr_min to 0", where);
  if (train.lr_decay != "none" && train.lr_steps <= train.lr_warmup)
    throw Error(ErrorCode::invalid_value,
                "train.lr_decay is '" + train.lr_decay + "', but there are no steps from train.lr_warmup (" +
                    std::to_string(train.lr_warmup) + ") to train.lr_steps (" +
                    std::to_string(train.lr_steps) + ")",
                "set train.lr_steps to the number of steps of the whole training", where);
  constexpr double kMostTokens = 0x1p53;  // counts of tokens stay exact
  const double derived = static_cast<double>(train.micro_batch) * static_cast<double>(train.accumulation) *
                         static_cast<double>(train.world_size);
  if (const double tokens =
          std::max(derived, static_cast<double>(train.global_batch)) * static_cast<double>(train.seq_len);
      tokens > kMostTokens)
    throw Error(ErrorCode::invalid_value, "a step has too many tokens: " + shown(Json(tokens)),
                "reduce train.micro_batch, accumulation, global_batch or seq_len; at most " +
                    shown(Json(static_cast<int64_t>(kMostTokens))) + " tokens are allowed",
                where);
  if (const int64_t one = train.micro_batch * train.accumulation; train.global_batch % one != 0)
    throw Error(ErrorCode::invalid_value,
                "train.global_batch (" + std::to_string(train.global_batch) +
                    ") is not a multiple of micro_batch x accumulation (" + std::to_string(one) + ")",
                "change one of them, or leave out train.global_batch to derive it", where);
}
}  // namespace

const Fields<DataSpec>& data_fields() {
  using T = DataSpec;
  static const auto fields =
      Fields<T>()
          .optional(&T::kind, {.name = "kind",
                               .doc = "random: seeded tokens; text: UTF-8, one token per byte; tokens: a "
                                      "token file; documents: prompts and completions, or whole texts; "
                                      "preferences: prompts with a chosen and a rejected answer",
                               .choices = {"random", "text", "tokens", "documents", "preferences"}})
          .optional(&T::path,
                    {.name = "path", .doc = "file or folder of text or documents, or the token file"})
          .optional(&T::extensions,
                    {.name = "extensions",
                     .doc = "extensions of the files in a folder, for example '.h'; empty: every file"});
  return fields;
}

bool only_epochs(const TrainSpec& train) { return train.epochs > 0 && train.steps == kMostSteps; }

std::string length_of(const TrainSpec& train) {
  return only_epochs(train) ? counted(train.epochs, "epoch") : counted(train.warmup + train.steps, "step");
}

const Fields<TrainSpec>& train_fields() {
  using T = TrainSpec;
  static const auto fields =
      Fields<T>()
          .optional(
              &T::world_size,
              {.name = "world_size",
               .doc = "processes that train one model together, each with a GPU or a share of the cores",
               .min = 1,
               .max = kMostRanks})
          .optional(&T::micro_batch, {.name = "micro_batch",
                                      .doc = "sequences per forward on one data-parallel rank",
                                      .min = 1,
                                      .max = kMostSequences})
          .optional(&T::accumulation, {.name = "accumulation",
                                       .doc = "micro-batches per step on one data-parallel rank",
                                       .min = 1,
                                       .max = kMostSequences})
          .optional(&T::global_batch,
                    {.name = "global_batch", .doc = "sequences per step on all ranks; 0: derived", .min = 0})
          .optional(&T::seq_len,
                    {.name = "seq_len", .doc = "tokens per sequence", .min = 1, .max = int64_t{1} << 31})
          .optional(&T::steps,
                    {.name = "steps",
                     .doc = "number of timed steps; with epochs and without steps, the epochs end the run",
                     .min = 1,
                     .max = kMostSteps})
          .optional(
              &T::epochs,
              {.name = "epochs",
               .doc = "maximum number of passes over the training data; 0: train.steps alone ends the run",
               .min = 0,
               .max = kMostSteps})
          .optional(
              &T::overfit,
              {.name = "overfit",
               .doc = "train on the first batch in every step; a rung whose last loss is not below this is "
                      "broken; 0: off",
               .min = 0})
          .optional(&T::warmup, {.name = "warmup",
                                 .doc = "number of warm-up steps before the timed ones",
                                 .min = 0,
                                 .max = kMostSteps})
          .optional(&T::seed, {.name = "seed", .doc = "seed of initial weights, data and dropout", .min = 0})
          .optional(&T::lr, {.name = "lr", .doc = "peak learning rate of the optimizer", .min = 0})
          .optional(&T::lr_warmup,
                    {.name = "lr_warmup",
                     .doc = "number of steps, timed or not, in which the learning rate rises to lr",
                     .min = 0,
                     .max = kMostSteps})
          .optional(&T::lr_decay, {.name = "lr_decay",
                                   .doc = "decay of the learning rate from lr_warmup to lr_steps",
                                   .choices = {"none", "linear", "cosine"}})
          .optional(&T::lr_steps,
                    {.name = "lr_steps",
                     .doc = "number of steps of the whole training for lr_decay; a run may be a part of it",
                     .min = 0,
                     .max = kMostSteps})
          .optional(&T::lr_min, {.name = "lr_min",
                                 .doc = "learning rate after lr_steps, as a fraction of lr",
                                 .min = 0,
                                 .max = 1})
          .optional(&T::beta1,
                    {.name = "beta1", .doc = "decay of AdamW's first moment, below 1", .min = 0, .max = 1})
          .optional(&T::beta2,
                    {.name = "beta2", .doc = "decay of AdamW's second moment, below 1", .min = 0, .max = 1})
          .optional(&T::eps,
                    {.name = "eps", .doc = "epsilon added to the root of AdamW's second moment", .min = 0})
          .optional(&T::weight_decay,
                    {.name = "weight_decay", .doc = "decoupled weight decay of matrices", .min = 0})
          .optional(&T::dtype,
                    {.name = "dtype", .doc = "type of the parameters", .choices = {"fp32", "fp64", "bf16"}});
  return fields;
}

const Fields<ValidateSpec>& validate_fields() {
  using T = ValidateSpec;
  const OptionSchema data = {.name = "data",
                             .type = "object",
                             .doc =
                                 "validation data; kind held_out: the end of the run's own text or tokens, "
                                 "excluded from training, or different random sequences",
                             .fallback = to_json(T{}.data)};
  const auto read = [](T& validate, const Json& json, const std::string&, const std::string& where) {
    if (json == to_json(T{}.data)) return;
    validate.data = data_from_json(json, where);
  };
  static const auto fields =
      Fields<T>()
          .optional(&T::every, {.name = "every",
                                .doc = "steps between validations, including warm-up; 0: no validation",
                                .min = 0,
                                .max = kMostSteps})
          .optional(&T::sequences, {.name = "sequences",
                                    .doc = "number of sequences of train.seq_len, over all ranks",
                                    .min = 1,
                                    .max = kMostSequences})
          .custom({data, read, [](const T& validate) { return to_json(validate.data); }})
          .optional(&T::patience,
                    {.name = "patience",
                     .doc = "end the run after this many validations in a row without a lower loss; 0: never",
                     .min = 0,
                     .max = kMostSteps})
          .optional(&T::keep_best,
                    {.name = "keep_best",
                     .doc = "keep the state of the lowest loss in the folder best of the run"});
  return fields;
}

ValidateSpec validate_from_json(const Json& json, const std::string& where) {
  return validate_fields().read(json, "validate", where);
}
Json to_json(const ValidateSpec& validate) { return validate_fields().write(validate); }

const Fields<SaveSpec>& save_fields() {
  static const auto fields = Fields<SaveSpec>().optional(
      &SaveSpec::every,
      {.name = "every",
       .doc = "steps between saved states, including warm-up; the last step is saved as well; 0: none",
       .min = 0,
       .max = kMostSteps});
  return fields;
}

const Fields<SampleSpec>& sample_fields() {
  using T = SampleSpec;
  static const auto fields =
      Fields<T>()
          .optional(&T::prompts,
                    {.name = "prompts",
                     .doc = "prompts that the trained model continues greedily after the last step"})
          .optional(&T::tokens, {.name = "tokens",
                                 .doc = "number of tokens to generate for each prompt",
                                 .min = 1,
                                 .max = kMostSampled});
  return fields;
}

DataSpec data_from_json(const Json& json, const std::string& where) {
  DataSpec data = data_fields().read(json, "data", where);
  check_train(data, where);
  return data;
}
Json to_json(const DataSpec& data) { return data_fields().write(data); }

TrainSpec train_from_json(const Json& json, const std::string& where) {
  TrainSpec train = train_fields().read(json, "train", where);
  check_train(train, where);
  return train;
}
Json to_json(const TrainSpec& train) { return train_fields().write(train); }
}  // namespace optrush
