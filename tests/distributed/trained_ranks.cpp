#include "trained_ranks.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/counter_random.h"
#include "base/temporary_folder.h"
#include "connected_ranks.h"
#include "io/safetensors.h"
#include "machine/socket.h"
#include "measure/memory.h"
#include "slot_edits.h"
#include "spec/record.h"
#include "train/interleaving.h"
#include "train/measurement.h"
#include "train/run_setup.h"
#include "train/state.h"
#include "train/trainer.h"

namespace optrush::testing {
namespace fs = std::filesystem;
namespace {
/// Masks the labels of a sequence after a position that depends on the sequence's number.
void punch_holes(Recipe& recipe) {
  recipe.data.wrap(
      Phase::base,
      [](auto inner) {
        return [inner](int64_t step) {
          auto batches = inner(step);
          for (Batch& batch : batches) {
            const int64_t rows = batch.labels.size(0), length = batch.labels.size(1);
            batch.labels = batch.labels.clone();  // with one sequence they share memory with the tokens
            for (int64_t row = 0; row < rows; ++row) {
              const auto valid =
                  static_cast<int64_t>(random_at(17, static_cast<uint64_t>(batch.first_sample + row)) %
                                       static_cast<uint64_t>(length + 1));
              batch.labels[row].slice(0, valid).fill_(-100);
            }
            batch.valid_tokens = batch.labels.ge(0).sum().item<int64_t>();
          }
          return batches;
        };
      },
      {.trace = Trace::aten});
}

/// See RanksRun::unused_parameters.
void add_sometimes_unused_parameters(Recipe& recipe) {
  struct Added {
    Param *gain = nullptr, *matrix = nullptr, *some = nullptr;
    int64_t step = 0;
  };
  const auto added = std::make_shared<Added>();
  recipe.on(Event::meta_initialized, Phase::adapter, [added](optrush::Run& run) {
    const auto ones = [](Tensor& value, at::Generator&) { value.fill_(1); };
    const auto small = [](Tensor& value, at::Generator& generator) { value.normal_(0, 0.02, generator); };
    // The block's own modules. Ranks may cut the modules of attention and MLP.
    Unit& block =
        **std::ranges::find_if(run.units(), [](const auto& unit) { return unit->role == UnitRole::block; });
    Module& module = block.modules.emplace_back(Module{block.path + ".rests", "rests", block.layer, {}});
    const Param& like = *run.modules("linear").front()->params.front();
    const int64_t width = like.shape.at(1);
    const auto add = [&](const char* name, std::vector<int64_t> shape, auto init) {
      Param param{.name = name, .shape = std::move(shape), .init = init, .dtype = like.dtype};
      param.axes = std::vector<std::string>(param.shape.size(), "model");
      param.decay = true;
      param.block = like.block;
      Param& made = run.params().add(std::move(param));
      module.params.push_back(&made);
      return &made;
    };
    added->gain = add("rests.gain", {width}, ones);
    added->matrix = add("rests.matrix", {width, width}, small);
    added->some = add("rests.some", {width}, ones);
  });
  recipe.on(Event::step_begin, Phase::base, [added](optrush::Run& run) { added->step = run.step(); });
  recipe.unit.wrap(Phase::adapter,
                   [added](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     if (unit.role != UnitRole::block || unit.layer != 0) return inner;
                     return [added, inner](const Tensor& x, const Batch& batch) {
                       Tensor out = inner(x, batch);
                       if (added->step % 3 != 1)
                         out = out * added->gain->value() + at::linear(out, added->matrix->value());
                       return batch.first_sample % 2 == 0 ? out * added->some->value() : out;
                     };
                   },
                   {.trace = Trace::aten});
}

/// See RanksRun::passes. The second block also does so when it is recomputed.
void pass_through_blocks(Recipe& recipe) {
  recipe.unit.wrap(Phase::adapter,
                   [](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     if (unit.role != UnitRole::block || unit.layer != 1) return inner;
                     return [](const Tensor& x, const Batch&) { return x; };
                   },
                   {.trace = Trace::aten});
  const auto first = std::make_shared<Tensor>();
  recipe.unit.wrap(Phase::offload,
                   [first](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     if (unit.role != UnitRole::block || (unit.layer != 0 && unit.layer != 2)) return inner;
                     return [first, inner, layer = unit.layer](const Tensor& x, const Batch& batch) {
                       if (layer == 0) return *first = inner(x, batch);
                       return std::exchange(*first, Tensor());
                     };
                   },
                   {.trace = Trace::aten});
}

/// See RanksRun::drifts.
void drift_apart(Recipe& recipe, const std::map<std::string, double>& drifts) {
  recipe.on(Event::step_end, Phase::base, [drifts](optrush::Run& run) {
    if (run.step() != 3 || run.mesh().world_rank() != 1) return;
    const at::NoGradGuard no_grad;
    for (const Shard& shard : run.data_parallel().shards())
      for (const Segment& segment : shard.segments)
        if (const auto found = drifts.find(segment.param->name); found != drifts.end())
          Shard::part(shard.data, segment).add_(found->second);
  });
}

/// See RanksRun::keeps.
void add_running_mean(Recipe& recipe, const std::string& whose) {
  const auto mean = std::make_shared<Tensor>();
  recipe.on(Event::meta_initialized, Phase::adapter, [mean](optrush::Run& run) {
    *mean = at::zeros({run.modules("linear").front()->params.front()->shape.at(1)}, at::kDouble);
  });
  recipe.keep(
      "mean", [mean] { return *mean; }, whose == "shared" ? Kept::shared : Kept::per_rank);
  recipe.unit.wrap(Phase::adapter,
                   [mean](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     if (unit.role != UnitRole::block || unit.layer != 0) return inner;
                     return [mean, inner](const Tensor& x, const Batch& batch) {
                       const Tensor out = inner(x, batch);
                       const at::NoGradGuard no_grad;
                       mean->mul_(0.9).add_(out.detach().mean(at::IntArrayRef{0, 1}), 0.1);
                       const at::AutoGradMode with_gradients(true);
                       return out + mean->clone();
                     };
                   },
                   {.trace = Trace::aten});
}

/// Each whole tensor, with NaN for elements that this rank does not save.
void save(Session& session, int64_t next_step, const fs::path& file) {
  const EvaluatedParameters evaluated(session);
  std::map<std::string, Tensor> whole;
  for (const StatePiece& piece : state_to_save(session, next_step)) {
    Tensor& tensor = whole[piece.key];
    if (!tensor.defined())
      tensor = at::full(piece.layout.shape(), std::numeric_limits<double>::quiet_NaN(), at::kDouble);
    Layout(piece.layout.shape())
        .copy(piece.layout, piece.value.to(at::kCPU, at::kDouble).contiguous(), tensor);
  }
  write_safetensors(file, {whole.begin(), whole.end()});
}

/// Every tensor of all ranks' files. Throws if an element is missing or saved twice.
std::map<std::string, Tensor> merged(const fs::path& folder) {
  std::map<std::string, Tensor> whole;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const SafetensorsFile file(entry.path());
    for (const auto& name : file.names()) {
      const Tensor part = file.read(name);
      Tensor& tensor = whole[name];
      if (!tensor.defined()) {
        tensor = part.clone();
        continue;
      }
      const Tensor given = part.isnan().logical_not();
      // All ranks with a piece of the parameter share its count of steps.
      if (tensor.dim() > 0 && given.logical_and(tensor.isnan().logical_not()).any().item<bool>())
        throw std::runtime_error("an element of '" + name + "' was saved twice");
      tensor = at::where(given, part, tensor);
    }
  }
  for (const auto& [name, tensor] : whole)
    if (tensor.isnan().any().item<bool>())
      throw std::runtime_error("an element of '" + name + "' was saved by no rank");
  return whole;
}

SavedState state_saved_in(const fs::path& folder) {
  return [whole = merged(folder)](const std::string& key) -> std::vector<StatePiece> {
    const auto found = whole.find(key);
    if (found == whole.end()) return {};
    return {{key, Layout(found->second.sizes().vec()), found->second}};
  };
}

/// Answers an interleaved run as the controller does: one turn of `steps`, then the end.
class OneTurn {
 public:
  OneTurn(const Ranks& ranks, int64_t steps) : listens_(listen_at(folder_ / "turns")) {
    run_.emplace(folder_ / "turns", ranks);  // connected before the thread accepts it
    const std::string go = Json{{"type", "go"}, {"steps", steps}, {"alone", true}}.dump();
    controller_ = std::jthread([this, go] {
      const Descriptor run(accept(listens_.get(), nullptr, nullptr));
      for (const std::string& answer : {go, std::string(R"({"type": "end"})")}) {
        for (char c = 0; c != '\n';)
          if (recv(run.get(), &c, 1, 0) != 1) return;
        const std::string line = answer + "\n";
        if (::send(run.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return;
      }
    });
  }
  Interleaving* run() { return &*run_; }

 private:
  TemporaryFolder folder_;
  Descriptor listens_;
  std::jthread controller_;
  std::optional<Interleaving> run_;  ///< closed first, so that the thread ends
};

Json train_job(const Ranks& given, const Json& arguments) {
  install_cpu_memory_tracking();
  Ranks ranks = given;
  const at::Device device = open_test_device(ranks, test_device());
  at::set_num_threads(1);
  const RunSpec spec = run_spec_from_json(arguments.at("spec"), "test");
  std::vector<int64_t> held;
  const auto session = RunSetup::open(spec, device, ranks, [&](RunRecipe& recipe) {
    recipe.edit_as("test");
    recipe.on(Event::step_begin, Phase::base,
              [&held, device](optrush::Run&) { held.push_back(allocated_now(device)); });
    if (arguments.at("holes")) punch_holes(recipe);
    if (arguments.at("unused_parameters")) add_sometimes_unused_parameters(recipe);
    if (arguments.at("passes")) pass_through_blocks(recipe);
    drift_apart(recipe, arguments.at("drifts"));
    if (const std::string slot = arguments.at("edit").at(0); !slot.empty()) {
      recipe.edit_as("aaa");
      slot == "lse" ? weigh_by_lse(recipe) : void(edit_slot(recipe, slot, arguments.at("edit").at(1)));
      recipe.edit_as("test");
    }
    if (const std::string whose = arguments.at("keeps"); !whose.empty()) add_running_mean(recipe, whose);
  });
  session->connect();
  session->declare();
  session->make_ready();
  if (const std::string folder = arguments.at("load"); !folder.empty())
    load_state(*session, state_saved_in(folder));
  std::optional<OneTurn> turn;
  if (const int64_t steps = arguments.at("ends_after"); steps > 0) turn.emplace(ranks, steps);
  RunResult result = train(
      *session, [](const Json&) {}, turn ? turn->run() : nullptr);
  turn.reset();
  add_ranks(result, *session, device.str());
  result.warnings = session->log().warnings();
  if (const std::string folder = arguments.at("save"); !folder.empty()) {
    fs::create_directories(folder);
    save(*session, session->step() + 1, fs::path(folder) / (std::to_string(ranks.rank) + ".safetensors"));
  }
  held.push_back(allocated_now(device));
  return {{"result", to_json(result)}, {"held", held}};
}
}  // namespace

const bool kJobs = add_jobs({{"train", train_job}});

TrainedRanks train_on(RankPool& pool, const RanksRun& run) {
  if (!run.save.empty()) fs::remove_all(run.save);
  const auto answers = pool.run("train", run.spec.train.world_size,
                                {{"spec", to_json(run.spec)},
                                 {"holes", run.holes},
                                 {"unused_parameters", run.unused_parameters},
                                 {"passes", run.passes},
                                 {"drifts", run.drifts},
                                 {"keeps", run.keeps},
                                 {"ends_after", run.ends_after},
                                 {"edit", run.edit},
                                 {"save", run.save},
                                 {"load", run.load}});
  std::string errors;
  std::optional<ErrorCode> code;  // code of the first error that is not a consequence of another
  for (const Json& answer : answers) {
    if (!answer.contains("error")) continue;
    errors += answer.at("error").get<std::string>() + "\n";
    const bool consequence = code == ErrorCode::rank_lost || code == ErrorCode::network;
    if (!code || consequence) code = record::taken<ErrorCode>(answer.at("code"), "code");
  }
  if (code) throw Error(*code, errors);
  TrainedRanks trained{
      .losses = {}, .norms = {}, .result = answers.front().at("result"), .peaks = {}, .held = {}};
  for (const Json& step : trained.result.at("steps")) {
    trained.losses.push_back(step.at("loss"));
    trained.norms.push_back(step.at("grad_norm").is_null() ? -1 : step.at("grad_norm").get<double>());
  }
  for (const Json& answer : answers) {
    trained.peaks.push_back(answer.at("result").at("memory").at("peak_allocated"));
    trained.held.push_back(answer.at("held"));
  }
  return trained;
}

RunSpec on_one_process(const RunSpec& spec, int64_t batch_ranks) {
  RunSpec one = spec;
  one.train.world_size = 1;
  one.train.accumulation *= batch_ranks;
  return one;
}

std::pair<double, std::string> difference_of_states(const fs::path& a, const fs::path& b) {
  const auto first = merged(a), second = merged(b);
  std::pair<double, std::string> worst;
  if (first.size() != second.size()) throw std::runtime_error("the states have other tensors");
  for (const auto& [name, tensor] : first) {
    const auto other = second.find(name);
    if (other == second.end()) throw std::runtime_error("only one of the states has '" + name + "'");
    const double scale = std::max(1e-300, tensor.abs().max().item<double>());
    const double apart = (tensor - other->second).abs().max().item<double>() / scale;
    if (apart > worst.first) worst = {apart, name};
  }
  return worst;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1e-300, std::abs(b[i])));
  return worst;
}
}  // namespace optrush::testing
