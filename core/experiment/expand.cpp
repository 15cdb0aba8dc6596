#include <algorithm>
#include <map>
#include <set>

#include "base/suggest.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "experiment/experiment.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr size_t kMostVariants = 1000;  // each trains for several rounds; more is a mistake in the script

constexpr size_t kLongestSlug = 40;

/// A stack with the origin of each plugin.
struct Stack {
  RunSpec spec;
  std::map<std::string, std::string> origin;  ///< by plugin: "the base", "rung 'bf16' (x.lua:12)"
  std::optional<External> external;
  bool chosen = false;  ///< an external rung has chosen the program

  bool is_program() const { return spec.model_kind == kProgramKind; }
};

void remove_plugin(Stack& stack, const std::string& plugin, const std::string& key, const Rung& rung,
                   const std::set<std::string>& may_be_missing) {
  if (std::erase_if(stack.spec.plugins, [&](const PluginUse& use) { return use.name == plugin; }) != 0 ||
      may_be_missing.contains(plugin))
    return;
  auto stacked = texts_of(stack.spec.plugins, &PluginUse::name);
  if (stack.external) {
    auto& changes = stack.external->changes;
    if (std::erase_if(changes, [&](const ProgramChange& change) { return change.rung == plugin; }) != 0)
      return;
    for (const auto& change : changes) stacked.push_back(change.rung);
  }
  std::string cure = "no plugins are stacked at this rung";
  if (!stacked.empty()) cure = "plugins stacked at this rung: " + join(stacked);
  if (const auto best = nearest(plugin, stacked); !best.empty())
    cure = "did you mean '" + best + "'? " + cure;
  throw Error(ErrorCode::unknown_name,
              "rung '" + rung.name + "': " + key + " names '" + plugin + "', which is not stacked", cure,
              rung.where);
}

void add_plugin(Stack& stack, const PluginUse& use, const Rung& rung) {
  if (const auto& name = use.name; std::ranges::count(stack.spec.plugins, name, &PluginUse::name) != 0)
    throw Error(
        ErrorCode::conflict,
        "rung '" + rung.name + "' stacks '" + name + "', which " + stack.origin.at(name) + " already stacks",
        "to change its options, set replace = \"" + name + "\"", rung.where);
  stack.spec.plugins.push_back(use);
  stack.origin[use.name] = "rung '" + rung.name + "' (" + rung.where + ")";
}

/// Puts the changes of a rung on the program of a stack.
void change_program(Stack& stack, const Rung& rung) {
  if (stack.is_program() && !rung.plugins.empty())
    throw Error(
        ErrorCode::conflict,
        "rung '" + rung.name + "' stacks the plugin '" + rung.plugins.front().name +
            "' on a program, which plugins cannot change",
        "change the program with args, env or command; or give the rung a model, which it then trains",
        rung.where);
  if (rung.program.empty()) return;
  if (!stack.external)
    throw Error(ErrorCode::conflict, "rung '" + rung.name + "' changes a program, but no program is below it",
                "give rush.experiment a program, or put a rush.external rung below", rung.where);
  auto& changes = stack.external->changes;
  changes.insert(changes.end(), rung.program.begin(), rung.program.end());
}

/// Adds a rung to a stack. `may_be_missing`: plugins that replace and without may name although they are not
/// stacked, because their rung was left out.
Stack on_top(Stack stack, const Rung& rung, const std::set<std::string>& may_be_missing = {}) {
  for (const auto& plugin : rung.without) remove_plugin(stack, plugin, "without", rung, may_be_missing);
  for (const auto& plugin : rung.replace) remove_plugin(stack, plugin, "replace", rung, may_be_missing);
  for (const auto& use : rung.plugins) add_plugin(stack, use, rung);
  // With a model, the worker trains instead of the program.
  if (stack.is_program() && rung.settings.contains("model_kind")) stack.external.reset();
  stack.spec = merged(stack.spec, rung.settings, rung.where);
  if (rung.external && stack.chosen)
    throw Error(ErrorCode::conflict,
                "rung '" + rung.name + "' and another rung of this combination are both external programs",
                "put external rungs on one axis", rung.where);
  change_program(stack, rung);
  if (rung.external) {
    const auto changes = stack.external ? stack.external->changes : std::vector<ProgramChange>();
    stack.external = rung.external;
    stack.external->changes = changes;
    stack.chosen = true;
  }
  return stack;
}

/// The plugins of rungs, and their changes of a program.
std::set<std::string> plugins_of(const std::vector<Rung>& rungs) {
  std::set<std::string> names;
  for (const auto& rung : rungs) {
    for (const auto& use : rung.plugins) names.insert(use.name);
    for (const auto& change : rung.program) names.insert(change.rung);
  }
  return names;
}

/// A key of everything that determines the runs of a spec. Edits of plugins commute, so their order is not
/// part of it.
std::string work_of(RunSpec spec, const std::optional<External>& external) {
  spec.rung.clear();
  spec.variant = 0;
  std::ranges::sort(spec.plugins, {}, &PluginUse::name);
  return to_json(spec).dump(-1, ' ', true, Json::error_handler_t::replace) +
         (external ? record::written(*external).dump(-1, ' ', true, Json::error_handler_t::replace) : "");
}

/// Collects the variants in report order.
class Expansion {
 public:
  Expansion(const Experiment& experiment, const std::set<std::string>& cannot_be) : cannot_be_(cannot_be) {
    base_.spec = experiment.base;
    base_.external = experiment.program;
    base_.spec.experiment = experiment.name;
    for (const auto& use : base_.spec.plugins)
      if (!base_.origin.emplace(use.name, "the base").second)
        throw Error(ErrorCode::conflict, "the base stacks '" + use.name + "' twice", "list it once");
    add(experiment.base_name, "base", -1, base_, "");
  }

  void ladder(const std::vector<Rung>& rungs) {
    begin_part(/*equals_are_meant=*/true);
    std::vector<Step> steps = {{"base", base_, 0, {}, false}};
    std::set<std::string> missing;  // plugins of rungs in `cannot_be`
    for (const auto& rung : rungs) {
      const Step below = rung.over.empty() ? step_below(rung, steps) : step_named(rung.over, steps, rung);
      if (below.beside && !rung.plugins.empty())
        throw Error(ErrorCode::conflict,
                    "rung '" + rung.name + "' stacks plugins over '" + below.name + "', which is a program",
                    "place it over a rung that Optimization Rush trains", rung.where);
      const bool aside = below.beside || rung.external;
      const Stack stack = rung.external ? beside(rung, below.stack) : on_top(below.stack, rung, missing);
      const int64_t index = add(rung.name, aside ? "external" : "ladder", below.variant, stack, rung.where);
      variants_.back().expect = rung.expect;
      variants_.back().passed_over = below.passed_over;
      steps.push_back({rung.name, stack, index, {}, aside});
      if (!cannot_be_.contains(rung.name)) continue;
      for (const auto& use : rung.plugins) missing.insert(use.name);
      steps.back() = below;
      steps.back().name = rung.name;
      steps.back().passed_over.push_back(rung.name);
    }
  }

  void ablation(const std::vector<Rung>& given) {
    for (const auto& rung : given) refuse_over(rung, "an ablation");
    begin_part(/*equals_are_meant=*/false);
    std::vector<Rung> rungs = given, others;
    std::ranges::copy_if(given, std::back_inserter(others),
                         [](const Rung& r) { return r.external.has_value(); });
    std::erase_if(rungs, [](const Rung& rung) { return rung.external.has_value(); });
    const auto optional = plugins_of(rungs);
    Stack full = base_;
    for (const auto& rung : rungs) full = on_top(std::move(full), rung);
    const int64_t top = add("full", "full", 0, full, rungs.empty() ? "" : rungs.front().where);
    for (const auto& left_out : rungs) {
      Stack stack = base_;
      for (const auto& rung : rungs)
        if (&rung != &left_out) stack = on_top(std::move(stack), rung, optional);
      add("without " + left_out.name, "without", top, stack, left_out.where);
    }
    for (const auto& rung : rungs) {
      add(rung.name + " alone", "alone", 0, on_top(base_, rung, optional), rung.where);
      variants_.back().expect = rung.expect;
    }
    for (const auto& rung : others) add(rung.name, "external", top, beside(rung, full), rung.where);
  }

  void grid(const std::vector<std::vector<Rung>>& axes) {
    std::set<std::string> optional;
    for (const auto& axis : axes) {
      for (const auto& rung : axis) refuse_over(rung, "a grid");
      optional.merge(plugins_of(axis));
    }
    begin_part(/*equals_are_meant=*/false);
    grid(axes, {}, base_, "", optional);
  }

  std::vector<Variant> release() { return std::move(variants_); }

 private:
  /// A rung of a ladder on which another rung may be stacked.
  struct Step {
    std::string name;
    Stack stack;
    int64_t variant = 0;
    std::vector<std::string> passed_over;  ///< invalid rungs above it that were skipped
    bool beside = false;                   ///< a program beside the ladder
  };

  /// The step below a rung that does not name one: the last of the ladder. A change of a program needs one;
  /// if the base is none, it is the last external rung.
  const Step& step_below(const Rung& rung, const std::vector<Step>& steps) const {
    const bool changes = !rung.program.empty() && !base_.external;
    const auto found = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& step) {
      return changes ? step.stack.external.has_value() : !step.beside;
    });
    return found == steps.rend() ? steps.front() : *found;
  }

  static const Step& step_named(const std::string& name, const std::vector<Step>& steps, const Rung& rung) {
    const auto found = std::ranges::find(steps, name, &Step::name);
    if (found != steps.end()) return *found;
    throw Error(ErrorCode::unknown_name,
                "rung '" + rung.name + "' is placed over '" + name + "', which is not a rung below it",
                did_you_mean(name, texts_of(steps, &Step::name)), rung.where);
  }

  static void refuse_over(const Rung& rung, const std::string& part) {
    if (!rung.over.empty())
      throw Error(ErrorCode::conflict,
                  "rung '" + rung.name + "' is placed over '" + rung.over + "' in " + part,
                  "use over in ladders only", rung.where);
  }

  void grid(const std::vector<std::vector<Rung>>& axes, const std::vector<std::string>& choices,
            const Stack& stack, const std::string& where, const std::set<std::string>& optional) {
    if (choices.size() == axes.size()) {
      add(grid_name(choices), "grid", 0, stack, where);
      return;
    }
    for (const auto& rung : axes[choices.size()]) {
      auto chosen = choices;
      chosen.push_back(rung.name);
      grid(axes, chosen, on_top(stack, rung, optional), rung.where, optional);
    }
  }

  /// The stack of a program beside the ladder. It replaces the program below with its changes.
  static Stack beside(const Rung& rung, Stack stack) {
    stack.external.reset();
    stack.chosen = false;
    return on_top(std::move(stack), rung);
  }

  int64_t add(const std::string& name, const std::string& group, int64_t previous, const Stack& stack,
              const std::string& where) {
    if (variants_.size() == kMostVariants)
      throw Error(ErrorCode::invalid_value,
                  "the experiment has more than " + std::to_string(kMostVariants) + " rungs",
                  "measure fewer combinations at a time", where);
    for (const auto& other : variants_)
      if (other.name == name)
        throw Error(
            ErrorCode::conflict,
            "two rungs are named '" + name + "'" + (other.where.empty() ? "" : ": also " + other.where),
            "give each rung a unique name: reports and --only use it", where);
    Variant variant{.index = static_cast<int64_t>(variants_.size()),
                    .name = name,
                    .group = group,
                    .previous = previous,
                    .spec = stack.spec,
                    .where = where,
                    .external = stack.external};
    variant.spec.rung = name;
    variant.spec.variant = variant.index;
    check_sequence_length(variant.spec, variant.where);
    check_start(variant);
    compare(variant);
    variant.same_as = same_as(variant);
    variants_.push_back(std::move(variant));
    return variants_.back().index;
  }

  /// A program with its own model gets no initial values.
  static void check_start(const Variant& variant) {
    if (!variant.external || variant.spec.model_kind != kProgramKind) return;
    for (const auto& word : full_command(*variant.external))
      if (word.find("{start}") != std::string::npos)
        throw Error(
            ErrorCode::conflict,
            "'" + word + "' in the command of '" + variant.name +
                "' needs a model, from whose initial values the program starts",
            "leave it out, or give the experiment a model and run the program as a rush.external rung",
            variant.where);
  }

  void begin_part(bool equals_are_meant) {
    equals_are_meant_ = equals_are_meant;
    part_begins_ = static_cast<int64_t>(variants_.size());
  }

  /// The earlier variant with the same runs as `variant`; -1: none.
  int64_t same_as(const Variant& variant) {
    const auto [first, is_new] =
        first_of_.try_emplace(work_of(variant.spec, variant.external), variant.index);
    const bool meant = equals_are_meant_ && (first->second == 0 || first->second >= part_begins_);
    return is_new || meant ? -1 : first->second;
  }

  void compare(Variant& variant) const {
    if (variant.previous < 0) {
      variant.added = variant.spec.plugins;
      return;
    }
    const RunSpec& before = variants_.at(static_cast<size_t>(variant.previous)).spec;
    for (const auto& use : variant.spec.plugins)
      if (!has(before.plugins, use)) variant.added.push_back(use);
    for (const auto& [name, options] : before.plugins)
      if (!std::ranges::count(variant.spec.plugins, name, &PluginUse::name)) variant.removed.push_back(name);
    variant.changed = difference(settings_of(before), settings_of(variant.spec));
  }

  const std::set<std::string>& cannot_be_;
  Stack base_;
  std::vector<Variant> variants_;
  std::map<std::string, int64_t> first_of_;  ///< by work_of(): the first variant with this stack
  bool equals_are_meant_ = false;            ///< equal variants of the present part are run separately
  int64_t part_begins_ = 0;                  ///< first variant of the present part
};

/// "FlashAttention + bf16" becomes "flashattention-bf16". Characters that are not allowed in a file name
/// become one dash.
std::string slug(const std::string& name) {
  std::string text = join(plain_words(name), "-").substr(0, kLongestSlug);
  while (text.ends_with('-')) text.pop_back();
  return text.empty() ? "rung" : text;
}
/// Every variant must train with the seed of the round.
void check_seeds(const Experiment& experiment, const std::vector<Variant>& variants) {
  if (experiment.stop_behind > 0 && experiment.target_loss == 0)
    throw Error(ErrorCode::missing_value, "stop_behind needs target_loss", "target_loss = 3.0");
  if (experiment.stop_behind > 0 && experiment.base.save.every > 0)
    throw Error(ErrorCode::conflict, "stop_behind cannot be combined with save",
                "leave out one of them: a run that ends early saves no state to continue from");
  if (experiment.seeds.empty()) return;
  const std::string count = counted(experiment.seeds.size(), "seed");
  if (experiment.until || experiment.rounds != std::ssize(experiment.seeds))
    throw Error(ErrorCode::conflict, "the rounds of this experiment are its " + count,
                "leave out rounds, within and at_most; seeds = 5 (--set seeds=5) gives five rounds");
  for (const Variant& variant : variants) {
    const std::string rung = "rung '" + variant.name + "' ";
    if (variant.spec.train.seed != static_cast<uint64_t>(experiment.seeds.front()))
      throw Error(ErrorCode::conflict,
                  rung + "sets train.seed, but the rounds of this experiment have its " + count,
                  "leave out train.seed, or list the seeds: seeds = { 7, 8, 9 } (--set seeds=[7,8,9])",
                  variant.where);
    const auto passes_seed = [](const std::string& word) {
      return word.find("{seed}") != std::string::npos || word.find("{spec}") != std::string::npos;
    };
    if (variant.external && std::ranges::none_of(full_command(*variant.external), passes_seed))
      throw Error(ErrorCode::missing_value, rung + "runs a program that does not get the seed of its round",
                  "add {seed} to its command, for example \"--seed\", \"{seed}\"", variant.where);
  }
}
}  // namespace

std::vector<Variant> expand(const Experiment& experiment, const std::set<std::string>& cannot_be) {
  if (experiment.rounds > kMostGivenRounds)
    throw Error(ErrorCode::invalid_value,
                "the experiment has " + std::to_string(experiment.rounds) + " rounds; the maximum is " +
                    std::to_string(kMostGivenRounds),
                "give fewer rounds, or within = 0.03 to run as many as needed");
  Expansion expansion(experiment, cannot_be);
  for (const auto& part : experiment.parts) {
    switch (part.arrangement) {
      case Arrangement::ladder:
        expansion.ladder(part.rungs);
        break;
      case Arrangement::ablation:
        expansion.ablation(part.rungs);
        break;
      case Arrangement::grid:
        expansion.grid(part.axes);
        break;
    }
  }
  auto variants = expansion.release();
  check_seeds(experiment, variants);
  return variants;
}

Experiment each_alone(const Experiment& experiment, const SearchRequest& request) {
  Experiment alone = experiment;
  Part ladder;
  for (const auto& axis : request.axes)
    for (const Rung& rung : axis) {
      ladder.rungs.push_back(rung);
      ladder.rungs.back().over = "base";
    }
  alone.parts = {ladder};
  return alone;
}

bool is_made_by_program(const Variant& variant, const RunSpec& spec) {
  if (!variant.external) return false;
  const bool of_reference = spec.purpose == Purpose::repeat && spec.round > 0;
  return spec.purpose != Purpose::reference && !of_reference;
}

std::string grid_name(const std::vector<std::string>& choices) { return join(choices, " + "); }

std::string run_id(const Variant& variant, const RunSpec& spec) {
  const std::string number = std::to_string(variant.index);
  std::string kind = spec.purpose == Purpose::measure ? "r" + std::to_string(spec.round + 1)
                                                      : std::string(to_string(spec.purpose));
  if (spec.purpose == Purpose::repeat && spec.round > 0) kind = "reference-repeat";
  return (number.size() < 2 ? "0" + number : number) + "-" + slug(variant.name) + "-" + kind;
}
}  // namespace optrush
