// The primitives of a step that schedules compose, and random numbers that depend only on (seed, step,
// sequence, unit).
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/temporary_folder.h"
#include "data/batches.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/state.h"
#include "train/train_step.h"

namespace optrush::testing {
namespace {
RunSpec double_spec(std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.dtype = "fp64";
  return spec;
}

/// One chunk for each unit.
void cut_into_units(Recipe& recipe) {
  recipe.stages.replace([](optrush::Run& run) {
    std::vector<std::vector<Unit*>> chunks;
    for (const auto& unit : run.units()) chunks.push_back({unit.get()});
    return chunks;
  });
}

/// Runs the chunks like a pipeline: all micro-batches go through a chunk before the next one, and gradients
/// pass from chunk to chunk.
void chunk_by_chunk(Step& step, int64_t chunks) {
  const int64_t micros = step.microbatches();
  std::map<std::pair<int64_t, int64_t>, Tensor> outs;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int64_t micro = 0; micro < micros; ++micro) {
      const Tensor in = chunk == 0 ? Tensor() : outs.at({chunk - 1, micro}).detach();
      outs[{chunk, micro}] = step.forward(chunk, micro, in);
    }
  std::map<int64_t, Tensor> gradients;
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk)
    for (int64_t micro = micros - 1; micro >= 0; --micro)
      gradients[micro] = step.backward(chunk, micro, outs.at({chunk, micro}), gradients[micro], micro == 0);
  EXPECT_FALSE(gradients[0].defined());  // embed has no input gradient
  step.update();
}

TEST(Step, ChunksAndMicroBatchesInAnyOrderTrainAsOne) {
  RunSpec spec = double_spec();
  spec.train.accumulation = 3;
  const Json whole = Trained(spec).train();
  const Json cut = Trained(spec, [](Recipe& recipe) {
                     cut_into_units(recipe);
                     recipe.schedule.replace([](Step& step) { chunk_by_chunk(step, 4); });
                   }).train();
  for (size_t i = 0; i < whole["steps"].size(); ++i) {
    EXPECT_NEAR(cut["steps"][i]["loss"], whole["steps"][i]["loss"], 1e-12);
    EXPECT_NEAR(cut["steps"][i]["grad_norm"], whole["steps"][i]["grad_norm"], 1e-11);
  }
}

TEST(Step, ARankKeepsOnlyTheParametersOfItsUnits) {
  const auto session = RunSetup::open(nano_spec(), at::kCPU, {}, [](Recipe& recipe) {
    recipe.stages.replace(
        [](optrush::Run& run) { return std::vector<std::vector<Unit*>>{{run.units().at(1).get()}}; });
  });
  session->connect();
  session->declare();
  ASSERT_EQ(session->chunks().size(), 1U);
  ASSERT_EQ(session->chunks()[0].size(), 1U);
  EXPECT_NE(session->chunks()[0][0]->role, UnitRole::head);
  for (const Param* param : session->params().all()) EXPECT_EQ(param->name.rfind("model.layers.0.", 0), 0);
  session->make_ready();
  EXPECT_EQ(session->data_parallel().shards().size(), session->params().all().size());
}

TEST(Step, ListenersGetEachShardOnceDuringTheBackward) {
  RunSpec spec = nano_spec();
  spec.train.accumulation = 2;
  std::map<const Shard*, int> first, second;
  bool updating = false;
  int in_backward = 0;
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.on(Event::ready, Phase::measure, [&](optrush::Run& run) {
      run.data_parallel().on_ready([&](Shard& shard) {
        EXPECT_TRUE(shard.grad.defined());
        ++first[&shard];
        if (!updating) ++in_backward;
      });
      run.data_parallel().on_ready([&](Shard& shard) { ++second[&shard]; });
    });
    recipe.schedule.wrap(Phase::measure, [&](auto inner) {
      return [&, inner](Step& step) {
        updating = false;
        for (int64_t micro = 0; micro < step.microbatches(); ++micro) {
          const Tensor loss = step.forward(0, micro, {});
          step.backward(0, micro, loss, {}, micro + 1 == step.microbatches());
        }
        updating = true;
        step.update();
      };
    });
  });
  trained.train();
  const auto steps = static_cast<int>(spec.train.warmup + spec.train.steps);
  const auto shards = trained.session().data_parallel().shards().size();
  EXPECT_EQ(first.size(), shards);
  EXPECT_EQ(first, second);
  for (const auto& [shard, calls] : first) EXPECT_EQ(calls, steps);
  EXPECT_EQ(in_backward, steps * static_cast<int>(shards));
}

/// Covers an optimizer that steps in the backward as well: it asks the run for the rate.
TEST(Step, OptimizerGetsTheRateOfItsStep) {
  RunSpec spec = nano_spec();
  spec.train.lr = 1;
  spec.train.lr_warmup = 1;
  spec.train.lr_decay = "linear";
  spec.train.lr_steps = 3;
  std::vector<double> told, asked;
  std::set<const void*> places;
  Trained(spec, [&](Recipe& recipe) {
    recipe.on(Event::ready, Phase::measure, [&](optrush::Run& run) {
      EXPECT_EQ(run.update(), nullptr) << "no step is under way";
      run.data_parallel().on_ready([&](Shard& shard) {
        if (&shard == run.data_parallel().shards().data()) asked.push_back(run.update()->lr);
      });
    });
    recipe.gradients.wrap(Phase::base, [&](auto inner) {
      return [&, inner](Gradients& gradients, Update& update) {
        inner(gradients, update);
        told.push_back(update.lr);
        EXPECT_EQ(update.lr_tensor.item<float>(), static_cast<float>(update.lr));
        places.insert(update.lr_tensor.const_data_ptr());
      };
    });
  }).train();
  EXPECT_EQ(told, (std::vector<double>{0.5, 1, 0.5}));
  EXPECT_EQ(asked, told);
  EXPECT_EQ(places.size(), 1) << "a recorded step reads it at one address";
}

TEST(Step, ListenersGetTheFinalGradient) {
  RunSpec spec = nano_spec({{"activation_checkpointing", Json::object()}});
  spec.train.accumulation = 2;
  std::map<const Shard*, Tensor> heard;
  bool equal = true;
  Trained(spec, [&](Recipe& recipe) {
    recipe.on(Event::ready, Phase::measure, [&](optrush::Run& run) {
      run.data_parallel().on_ready([&](Shard& shard) { heard[&shard] = shard.grad.clone(); });
    });
    recipe.gradients.wrap(Phase::base, [&](auto inner) {
      return [&, inner](Gradients& gradients, Update& update) {
        for (const Shard& shard : gradients.shards())
          equal = equal && at::equal(shard.grad, heard.at(&shard));
        inner(gradients, update);
      };
    });
  }).train();
  EXPECT_TRUE(equal);
}

TEST(Step, DropoutDoesNotDependOnTheOrderOfUnitsAndMicroBatches) {
  RunSpec spec = double_spec({{"lora", {{"rank", 4}, {"dropout", 0.5}}}});
  spec.train.accumulation = 2;
  Trained one(spec), cut(spec, cut_into_units);
  const auto gradients = [](Trained& trained, bool by_chunks) {
    Session& session = trained.session();
    const Batches batches(session.spec(), session.model(), session.mesh(), at::kCPU);
    const auto clock = StepClock::make(at::kCPU);
    session.begin_step(0);
    TrainStep step(session, *clock, batches.step(0));
    if (by_chunks) {
      chunk_by_chunk(step, 4);
    } else {
      default_schedule(step);
    }
    return step.outcome().gradient_norm.item<double>();
  };
  EXPECT_NEAR(gradients(cut, true), gradients(one, false), 1e-12);
}

TEST(Step, DropoutDiffersBetweenStepsAndSequences) {
  RunSpec spec = double_spec({{"lora", {{"rank", 4}, {"dropout", 0.5}}}});
  Trained trained(spec);
  Session& session = trained.session();
  Batch batch = Batches(session.spec(), session.model(), session.mesh(), at::kCPU).step(0).at(0);
  session.prepare(batch);
  for (Param* param : session.params().all())
    if (param->trainable) {
      const at::NoGradGuard no_grad;
      param->leaf.fill_(0.1);
    }
  const auto loss = [&](int64_t step, int64_t sample) {
    session.begin_step(step);
    batch.first_sample = sample;
    return session.forward(0, batch, {}).item<double>();
  };
  const double first = loss(0, 0);
  EXPECT_EQ(loss(0, 0), first);
  EXPECT_NE(loss(1, 0), first);
  EXPECT_NE(loss(0, 4), first);
}

TEST(State, TrainingContinuesFromTheSavedState) {
  for (const char* optimizer : {"", "fused_adamw", "bf16_weights"}) {
    RunSpec spec = nano_spec({{"mixed_precision", {{"dtype", "fp16"}, {"initial_scale", 1e9}}}});
    if (std::string(optimizer) == "bf16_weights") spec.plugins.clear();
    if (*optimizer != '\0') spec.plugins.push_back({optimizer, Json::object()});
    spec.train.warmup = 0;
    spec.train.lr_warmup = 9;
    spec.train.lr_decay = "linear";
    spec.train.lr_steps = 17;
    spec.train.steps = 18;
    const auto whole = losses(Trained(spec).train());
    spec.train.steps = 14;
    Trained begun(spec);
    const auto first = losses(begun.train());
    std::map<std::string, std::vector<StatePiece>> saved;
    for (auto& piece : state_to_save(begun.session(), 14)) saved[piece.key].push_back(piece);
    spec.train.steps = 4;
    Trained resumed(spec);
    load_state(resumed.session(), [&](const std::string& key) { return saved[key]; });
    const auto rest = losses(resumed.train());
    for (size_t i = 0; i < 14; ++i) EXPECT_EQ(first[i], whole[i]) << optimizer << i;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rest[i], whole[14 + i]) << optimizer << i;
  }
}

/// The sequences that each step of a run reads, in order, and the run's notes.
struct Read {
  std::vector<std::vector<std::string>> steps;
  std::vector<std::string> notes;
  std::map<std::string, std::vector<StatePiece>> saved;
};

/// Goes on from the state `from`, if given. Saves its state after the last step, as the trainer does.
Read read_of(const RunSpec& spec, const Read* from = nullptr, bool with_position = true) {
  Read read;
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.data.wrap(Phase::prefetch, [&](auto inner) {
      return [&read, inner](int64_t step) {
        std::vector<Batch> batches = inner(step);
        auto& rows = read.steps.emplace_back();
        for (const Batch& batch : batches)
          for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
            const Tensor tokens = batch.tokens[row].contiguous();
            rows.emplace_back(reinterpret_cast<const char*>(tokens.const_data_ptr()), tokens.nbytes());
          }
        return batches;
      };
    });
  });
  Session& session = trained.session();
  Continuation run;
  if (from != nullptr)
    run.read = load_state(session, [&](const std::string& key) {
      const auto found = from->saved.find(key);
      return found == from->saved.end() ? std::vector<StatePiece>() : found->second;
    });
  optrush::train(
      session, [](const Json&) {}, nullptr, {}, run);
  read.notes = session.log().notes();
  Batches batches(spec, session.model(), session.mesh(), at::kCPU);
  const int64_t next = session.first_step() + spec.train.warmup + spec.train.steps;
  if (run.read && run.read->order == batches.order())
    batches.resume_at(session.first_step(), run.read->samples);
  const DataPosition position{batches.first_sample(next), batches.order()};
  const auto pieces = with_position ? state_to_save(session, next, position) : state_to_save(session, next);
  for (const auto& piece : pieces)
    read.saved[piece.key].push_back({piece.key, piece.layout, piece.value.clone()});
  return read;
}

std::vector<std::string> sequences_of(const std::vector<const Read*>& runs) {
  std::vector<std::string> all;
  for (const Read* run : runs)
    for (const auto& step : run->steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

TEST(State, DataContinueWithTheNextSequenceForAnyBatch) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 0;
  spec.train.micro_batch = 1;
  spec.train.steps = 12;
  const Read all = read_of(spec);
  ASSERT_EQ(sequences_of({&all}).size(), 12U);
  spec.train.micro_batch = 2;
  spec.train.steps = 2;
  const Read first = read_of(spec);
  spec.train.micro_batch = 1;
  const Read second = read_of(spec, &first);
  spec.train.accumulation = 3;
  const Read third = read_of(spec, &second);
  EXPECT_EQ(sequences_of({&first, &second, &third}), sequences_of({&all})) << "each sequence once";
  for (const Read* run : {&second, &third}) EXPECT_TRUE(run->notes.empty()) << run->notes.front();
}

TEST(State, DataOfAnotherOrderStartWithTheFirstSequence) {
  RunSpec spec = nano_spec();
  spec.train.steps = 2;
  const Read first = read_of(spec);
  for (const char* change : {"seed", "seq_len"}) {
    RunSpec other = spec;
    if (std::string(change) == "seed")
      other.train.seed = 5;
    else
      other.train.seq_len = 8;
    const Read fresh = read_of(other), then = read_of(other, &first);
    EXPECT_EQ(then.steps, fresh.steps) << change;
    ASSERT_EQ(then.notes.size(), 1U);
    EXPECT_NE(then.notes[0].find("start from their first sequence"), std::string::npos) << then.notes[0];
  }
}

TEST(State, StateOfAnEarlierVersionNotesAssumptions) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 0;
  spec.train.steps = 4;
  const Read all = read_of(spec);
  spec.train.steps = 2;
  const Read first = read_of(spec, nullptr, /*with_position=*/false), then = read_of(spec, &first);
  EXPECT_EQ(sequences_of({&first, &then}), sequences_of({&all}));
  ASSERT_EQ(then.notes.size(), 1U);
  EXPECT_NE(then.notes[0].find("are assumed"), std::string::npos) << then.notes[0];
}

TEST(State, ParametersAreSavedBitForBit) {
  RunSpec spec = nano_spec({{"bf16_weights", Json::object()}});
  spec.train.steps = 3;
  Trained trained(spec);
  trained.train();
  const auto saved = state_to_save(trained.session(), 3);
  const TemporaryFolder folder;
  write_state_part(folder.path(), 3, 0, saved);
  commit_state(folder.path(), 3, 1);
  RunSpec of_state = nano_spec();
  of_state.start = folder.path().string();
  Trained plain(of_state);
  bool rounded = false;
  for (Param* of_plain : plain.session().params().all()) {
    const Tensor value = of_plain->value();
    ASSERT_EQ(value.scalar_type(), at::kFloat);
    const Tensor weight = trained.session().params().at(of_plain->name).value();
    EXPECT_TRUE(at::equal(value.to(weight.scalar_type()), weight)) << of_plain->name;
    rounded = rounded || !at::equal(value, weight.to(at::kFloat));
  }
  EXPECT_TRUE(rounded) << "the masters have more bits than the weights";
  for (const auto& piece : saved) EXPECT_EQ(piece.key.find("optimizer/master"), std::string::npos);
}

TEST(State, MissingTensorsAreNamed) {
  Trained trained(nano_spec());
  const auto message = error_of(
      [&] { load_state(trained.session(), [](const std::string&) { return std::vector<StatePiece>(); }); });
  EXPECT_NE(message.find("has 0 of the"), std::string::npos) << message;
  EXPECT_NE(message.find("'model/model.embed_tokens.weight'"), std::string::npos) << message;
}

TEST(Waiting, CountsAsExposedCommunicationWithinAPhase) {
  const auto clock = StepClock::make(at::kCPU);
  clock->enter(Bucket::backward);
  { const BucketScope waiting(*clock, Bucket::communication); }
  clock->enter(Bucket::off);
  { const BucketScope waiting(*clock, Bucket::communication); }
  clock->end_step();
  { const BucketScope outside(*clock, Bucket::communication); }
  const auto time = clock->take(true);
  ASSERT_TRUE(time.has_value());
  const auto at = [](Bucket bucket) { return static_cast<size_t>(bucket); };
  EXPECT_TRUE(time->seen[at(Bucket::communication)]);
  EXPECT_TRUE(time->seen[at(Bucket::backward)]);
  EXPECT_LT(time->seconds[at(Bucket::communication)], time->total() + time->seconds[at(Bucket::off)]);
  EXPECT_FALSE(clock->take(true).has_value());
}
}  // namespace
}  // namespace optrush::testing
