#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr int64_t kMostRanks = 65536;
constexpr int64_t kMostSampled = 4096;
constexpr int64_t kMostSequences = 1'000'000;  // limit for micro-batch, accumulation and validation

void check_data(const DataSpec& data) {
  const auto ignored = [&](const std::string& field) {
    return Error(ErrorCode::conflict,
                 "data." + field + " would be ignored: data.kind is '" + data.kind + "'");
  };
  if (data.kind == "random" && !data.path.empty()) throw ignored("path");
  if (data.kind != "random" && data.path.empty())
    throw Error(ErrorCode::missing_value, "data.path is missing",
                "give the file or folder for data.kind '" + data.kind + "'");
  if (data.kind != "text" && data.kind != "documents" && data.kind != "preferences" &&
      !data.extensions.empty())
    throw ignored("extensions");
  for (const auto& extension : data.extensions)
    if (extension.size() < 2 || extension[0] != '.')
      throw Error(ErrorCode::invalid_value, "data.extensions has '" + extension + "'",
                  "start an extension with a dot, for example '.h'");
}

void check_train(const TrainSpec& train) {
  if (train.beta1 == 1 || train.beta2 == 1)
    throw Error(ErrorCode::invalid_value, "train.beta1 and train.beta2 must be below 1",
                "use values from 0 to below 1: AdamW divides by 1 - beta");
  if (train.overfit > 0 && train.epochs > 0)
    throw Error(ErrorCode::conflict,
                "train.epochs is " + std::to_string(train.epochs) +
                    ", but a run that overfits one batch has no epochs",
                "set train.epochs or train.overfit to 0");
  if (train.lr_decay == "none" && (train.lr_steps != 0 || train.lr_min != 0))
    throw Error(ErrorCode::conflict,
                std::string("train.") + (train.lr_steps != 0 ? "lr_steps" : "lr_min") +
                    " would be ignored: train.lr_decay is 'none'",
                "set train.lr_decay to linear or cosine, or train.lr_steps and train.lr_min to 0");
  if (train.lr_decay != "none" && train.lr_steps <= train.lr_warmup)
    throw Error(ErrorCode::invalid_value,
                "train.lr_decay is '" + train.lr_decay + "', but there are no steps from train.lr_warmup (" +
                    std::to_string(train.lr_warmup) + ") to train.lr_steps (" +
                    std::to_string(train.lr_steps) + ")",
                "set train.lr_steps to the number of steps of the whole training");
  constexpr double kMostTokens = 0x1p53;  // counts of tokens stay exact
  const double derived = static_cast<double>(train.micro_batch) * static_cast<double>(train.accumulation) *
                         static_cast<double>(train.world_size);
  if (const double tokens =
          std::max(derived, static_cast<double>(train.global_batch)) * static_cast<double>(train.seq_len);
      tokens > kMostTokens)
    throw Error(ErrorCode::invalid_value, "a step has too many tokens: " + shown(Json(tokens)),
                "reduce train.micro_batch, accumulation, global_batch or seq_len; at most " +
                    shown(Json(static_cast<int64_t>(kMostTokens))) + " tokens are allowed");
  if (const int64_t one = train.micro_batch * train.accumulation; train.global_batch % one != 0)
    throw Error(ErrorCode::invalid_value,
                "train.global_batch (" + std::to_string(train.global_batch) +
                    ") is not a multiple of micro_batch x accumulation (" + std::to_string(one) + ")",
                "change one of them, or leave out train.global_batch to derive it");
}
}  // namespace

Record<DataSpec> record_of(const DataSpec*) {
  using T = DataSpec;
  return Record<T>::given("data")
      .field("kind", &T::kind,
             "random: seeded tokens; text: UTF-8, one token per byte; tokens: a token file; documents: "
             "prompts and completions, or whole texts; preferences: prompts with a chosen and a rejected "
             "answer",
             {.choices = {"random", "text", "tokens", "documents", "preferences"}})
      .field("path", &T::path, "file or folder of text or documents, or the token file")
      .field("extensions", &T::extensions,
             "extensions of the files in a folder, for example '.h'; empty: every file")
      .then(check_data);
}

bool only_epochs(const TrainSpec& train) { return train.epochs > 0 && train.steps == kMostSteps; }

std::string length_of(const TrainSpec& train) {
  return only_epochs(train) ? counted(train.epochs, "epoch") : counted(train.warmup + train.steps, "step");
}

Record<TrainSpec> record_of(const TrainSpec*) {
  using T = TrainSpec;
  return Record<T>::given("train")
      .field("world_size", &T::world_size,
             "processes that train one model together, each with a GPU or a share of the cores",
             {.min = 1, .max = kMostRanks})
      .field("micro_batch", &T::micro_batch, "sequences per forward on one data-parallel rank",
             {.min = 1, .max = kMostSequences})
      .field("accumulation", &T::accumulation, "micro-batches per step on one data-parallel rank",
             {.min = 1, .max = kMostSequences})
      .field("global_batch", &T::global_batch, "sequences per step on all ranks; 0: derived", {.min = 0})
      .field("seq_len", &T::seq_len, "tokens per sequence", {.min = 1, .max = int64_t{1} << 31})
      .field("steps", &T::steps,
             "number of timed steps; with epochs and without steps, the epochs end the run",
             {.min = 1, .max = kMostSteps})
      .field("epochs", &T::epochs,
             "maximum number of passes over the training data; 0: train.steps alone ends the run",
             {.min = 0, .max = kMostSteps})
      .field("overfit", &T::overfit,
             "train on the first batch in every step; a rung whose last training loss is not below this is "
             "broken; 0: off",
             {.min = 0})
      .field("warmup", &T::warmup, "number of warm-up steps before the timed ones",
             {.min = 0, .max = kMostSteps})
      .field("seed", &T::seed, "seed of initial weights, data and dropout", {.min = 0})
      .field("lr", &T::lr, "peak learning rate of the optimizer", {.min = 0})
      .field("lr_warmup", &T::lr_warmup,
             "number of steps, timed or not, in which the learning rate rises to lr",
             {.min = 0, .max = kMostSteps})
      .field("lr_decay", &T::lr_decay, "decay of the learning rate from lr_warmup to lr_steps",
             {.choices = {"none", "linear", "cosine"}})
      .field("lr_steps", &T::lr_steps,
             "number of steps of the whole training for lr_decay; a run may be a part of it",
             {.min = 0, .max = kMostSteps})
      .field("lr_min", &T::lr_min, "learning rate after lr_steps, as a fraction of lr", {.min = 0, .max = 1})
      .field("beta1", &T::beta1, "decay of AdamW's first moment, below 1", {.min = 0, .max = 1})
      .field("beta2", &T::beta2, "decay of AdamW's second moment, below 1", {.min = 0, .max = 1})
      .field("eps", &T::eps, "epsilon added to the root of AdamW's second moment", {.min = 0})
      .field("weight_decay", &T::weight_decay, "decoupled weight decay of matrices", {.min = 0})
      .field("dtype", &T::dtype, "type of the parameters", {.choices = {"fp32", "fp64", "bf16"}})
      .then(check_train);
}

Record<ValidateSpec> record_of(const ValidateSpec*) {
  using T = ValidateSpec;
  return Record<T>::given("validate")
      .field("every", &T::every, "steps between validations, including warm-up; 0: no validation",
             {.min = 0, .max = kMostSteps})
      .field("sequences", &T::sequences, "number of sequences of train.seq_len, over all ranks",
             {.min = 1, .max = kMostSequences})
      .custom(
          "data",
          {.doc = "validation data; kind held_out: the end of the run's own text or tokens, excluded "
                  "from training, or different random sequences",
           .type = "object"},
          [](T& validate, const Json& json) {
            if (json != to_json(T{}.data)) validate.data = fields_of<DataSpec>().read(json);
          },
          [](const T& validate) { return to_json(validate.data); })
      .field("patience", &T::patience,
             "end the run after this many validations in a row without a lower loss; 0: never",
             {.min = 0, .max = kMostSteps})
      .field("keep_best", &T::keep_best, "keep the state of the lowest loss in the folder best of the run");
}

Record<SaveSpec> record_of(const SaveSpec*) {
  return Record<SaveSpec>::given("save").field(
      "every", &SaveSpec::every,
      "steps between saved states, including warm-up; the last step is saved as well; 0: none",
      {.min = 0, .max = kMostSteps});
}

Record<SampleSpec> record_of(const SampleSpec*) {
  using T = SampleSpec;
  return Record<T>::given("sample")
      .field("prompts", &T::prompts, "prompts that the trained model continues greedily after the last step")
      .field("tokens", &T::tokens, "number of tokens to generate for each prompt",
             {.min = 1, .max = kMostSampled});
}

double learning_rate(const TrainSpec& train, int64_t step) {
  if (step < train.lr_warmup)
    return train.lr * static_cast<double>(step + 1) / static_cast<double>(train.lr_warmup + 1);
  if (train.lr_decay == "none") return train.lr;
  const double done = std::min(1.0, static_cast<double>(step - train.lr_warmup) /
                                        static_cast<double>(train.lr_steps - train.lr_warmup));
  const double left = train.lr_decay == "linear" ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return train.lr * (train.lr_min + (1 - train.lr_min) * left);
}

void check_schedule(const TrainSpec& train, int64_t first) {
  if (train.lr_decay == "none" || first < train.lr_steps) return;
  throw Error(ErrorCode::invalid_value,
              "the state is from step " + std::to_string(first) +
                  ", but the schedule of the learning rate ends at step " + std::to_string(train.lr_steps) +
                  " (train.lr_steps) of the whole training, so no step of this training would follow it",
              "for a new schedule, take the weights alone: start = { state = ..., weights_only = true }. To "
              "continue the schedule, raise train.lr_steps. For a constant rate, set lr_decay = \"none\"");
}
}  // namespace optrush
