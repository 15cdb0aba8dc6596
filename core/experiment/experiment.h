#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/external.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "spec/spec_json.h"

namespace optrush {
/// Published figures for the change of a rung. The report shows them beside the measured ones.
struct Published {
  double speedup = 0;  ///< tokens/s relative to the rung below; 0: not published
  double memory = 0;   ///< peak memory relative to the rung below; 0: not published
  std::string source;  ///< the publication: a paper, a README
  std::string on;      ///< device and problem, separated by a comma: "A100-80GB, sequence 2048"

  bool operator==(const Published&) const = default;
  /// Whether this GPU matches the published device: its name contains every part of it, as "NVIDIA
  /// A100-SXM4-80GB" contains those of "A100-80GB".
  bool comparable_with(const std::string& device) const;
};

Record<Published> record_of(const Published*);

/// How a report shows a grid besides its rows. Without columns and x it shows nothing more.
struct GridView {
  std::vector<std::string> axes;  ///< names of the axes, if the script gives them
  /// Quantities of the report for a table with one column per axis
  std::vector<std::string> columns;
  std::string against;              ///< a choice of one axis; changes relative to it are in brackets
  std::string x;                    ///< a numeric setting ("train.seq_len") for the x axis of curves
  std::vector<std::string> curves;  ///< quantities of the report to draw over x

  bool operator==(const GridView&) const = default;
};

Record<GridView> record_of(const GridView*);

/// A named change, as written in the script.
struct Rung {
  std::string name;
  std::vector<PluginUse> plugins;
  /// Merged into the spec: {"train": {...}, "model": {...}, "data": {...}, "device": ..}
  Json settings = Json::object();
  std::vector<std::string> replace;  ///< stacked plugins that this rung replaces
  /// Stacked plugins, or rungs with a change of a program, that this rung removes
  std::vector<std::string> without;
  std::string over;   ///< the rung of the ladder that it is stacked on; empty: the one before it
  std::string where;  ///< "quickstart.lua:12"
  std::optional<External> external;    ///< a program that trains instead of the worker
  std::vector<ProgramChange> program;  ///< changes of the program that it is stacked on
  std::optional<Published> expect;     ///< published figures for its change
};

enum class Arrangement : uint8_t { ladder, ablation, grid };

/// A part of an experiment. ladder: each rung is stacked on the one before or on the rung that it names.
/// ablation: the full stack, the stack without each rung, and each rung alone. grid: every combination of one
/// choice per axis. An external rung is beside a ladder or an ablation and not in its stack: it trains what
/// the rungs below it train, and the next rung is stacked on those. A rung that changes a program is stacked
/// on the program below it: on the one of the base, otherwise on the last external rung.
struct Part {
  Arrangement arrangement = Arrangement::ladder;
  std::vector<Rung> rungs;
  std::vector<std::vector<Rung>> axes;  ///< grid only
  GridView view;                        ///< grid only
};

/// Whether the runs of a round are interleaved step by step (docs/guides/running.md). automatic: if they fit
/// into memory together.
enum class Interleave : uint8_t { automatic, on, off };

/// When an experiment with an open number of rounds has run enough.
struct Until {
  double within = 0.03;  ///< half width of an interval of the log ratio: 0.03 is ±3 %
  double at_most_s = 0;  ///< seconds after which no round starts
  /// Seconds after which no round starts if every pair has enough rounds for a claim; 0: at_most_s.
  double enough_s = 0;
  /// Only rungs that may still be faster than their base continue: a decided rung stops, and so does a rung
  /// that is certainly not faster by more than `within`.
  bool race = false;
  bool operator==(const Until&) const = default;
};

/// The maximum number of rounds of a rung.
inline constexpr int64_t kMostRounds = 200;
/// The same of a given number, whose specs are all known in advance.
inline constexpr int64_t kMostGivenRounds = 10'000;

/// Parses seconds: 90, "90s", "5m", "1.5h". An Error lists the forms.
double seconds_from(const Json&, const std::string& where);

Record<Until> record_of(const Until*);

/// An experiment as a script describes it, before expansion. Plain data; --dry-run prints it.
struct Experiment {
  std::string name, question, script;  ///< script: absolute path
  std::string script_sha256;
  Json arguments = Json::object();  ///< all arguments that the script reads, with their values: {"layers": 8}
  RunSpec base;                     ///< rung 0; it has no plugins unless the script adds some
  std::string base_name = "base";   ///< name of rung 0
  std::optional<External> program;  ///< a program that rung 0 runs; its spec has the kind kProgramKind
  std::vector<Part> parts;
  int64_t rounds = 5;
  /// The seed of each round, which all variants of the round train with; empty: base.train.seed in each.
  std::vector<int64_t> seeds;
  std::optional<Until> until;  ///< replaces `rounds` by conditions
  Interleave interleave = Interleave::automatic;
  double target_loss = 0;  ///< the report states when each rung reaches this loss; 0: none
  /// A run ends at target_loss, or when it has trained this many times as long as the first run of its round
  /// that reached it; 0: every run makes all steps.
  double stop_behind = 0;
  bool trace = false;        ///< the first round of every rung writes a trace of an additional step
  int64_t max_restarts = 0;  ///< restarts after faults, for each run that saves its state
  std::string label = "local";
  double price_per_hour = 0;  ///< 0: not known
  std::string currency = "USD";
};

/// A row of the report: a complete spec and its place.
struct Variant {
  int64_t index = 0;             ///< 0: the base
  std::string name;              ///< name of the rung; Experiment::base_name for the base
  std::string group;             ///< base | ladder | full | without | alone | grid | external
  int64_t previous = -1;         ///< the variant that it is compared with; -1 for the base
  RunSpec spec;                  ///< the spec of round 0
  std::vector<PluginUse> added;  ///< plugins added to those of `previous`, with validated options
  std::vector<std::string> removed;
  Json changed = Json::object();  ///< settings that differ from `previous`
  std::string where;
  std::optional<External> external;
  std::optional<Published> expect;  ///< published figures, for a rung of a ladder
  /// Invalid rungs directly below that were skipped
  std::vector<std::string> passed_over;
  /// An earlier variant with the same stack, whose runs this one shares; -1: none.
  int64_t same_as = -1;

  bool has_own_runs() const { return same_as < 0; }
  /// The variant whose runs this row shows.
  int64_t runs_of() const { return has_own_runs() ? index : same_as; }
};

/// Whether the variant's program makes this run. The gate's reference of a program beside our model is
/// trained by the worker.
bool is_made_by_program(const Variant&, const RunSpec&);

/// The name of a grid's variant with these choices.
std::string grid_name(const std::vector<std::string>& choices);

/// All variants in report order. Errors have the rung's place in the script. A rung above one of `cannot_be`
/// is stacked on the rung below that one. A stack that an earlier part already has, or a combination that
/// equals the base, is not run again (`same_as`). Equal rungs of one ladder are run separately, because they
/// show the random variation.
std::vector<Variant> expand(const Experiment&, const std::set<std::string>& cannot_be = {});

/// An experiment with its variants.
struct Expanded {
  Experiment experiment;
  std::vector<Variant> variants;

  explicit Expanded(Experiment one) : experiment(std::move(one)), variants(expand(experiment)) {}
};

/// Default precision of each stage of a search, and default time limit of the whole search.
inline constexpr Until kSearchUntil = {.within = 0.02, .at_most_s = 1200};

/// The stacks of a search: of each axis one rung or none, on top of the experiment's base. Experiment::until
/// limits the search.
struct SearchRequest {
  std::vector<std::vector<Rung>> axes;
  std::optional<double> memory_bytes;  ///< limit for the predicted memory of a stack
};
/// The experiment with each rung of the search alone on top of the base.
Experiment each_alone(const Experiment&, const SearchRequest&);

/// Sets seeds and the number of rounds from a list of seeds, or a number of them from train.seed on.
void set_seeds(const Json& seeds, Experiment&, const std::string& where);

Record<Experiment> record_of(const Experiment*);
Experiment experiment_from_json(const Json&, const std::string& where);
Record<Variant> record_of(const Variant*);
Variant variant_from_json(const Json&, const std::string& where);

/// The settings of a spec in the form of a rung's settings: {"model": ..., "train": ..., "device": ...}.
Json settings_of(const RunSpec&);
/// The fields of `now` that differ from `before`, recursively.
Json difference(const Json& before, const Json& now);
/// Whether the list has this plugin with equal options.
bool has(const std::vector<PluginUse>&, const PluginUse& wanted);

/// A rung that turns the stack of `from` into the stack of `to`, for any stacks.
Rung rung_between(const Variant& from, const Variant& to, std::string name);

/// The folder name of a run: "03-flash-attention-r1", "03-flash-attention-probe".
std::string run_id(const Variant&, const RunSpec&);
}  // namespace optrush
