#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/external.h"
#include "experiment/until.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "spec/spec_json.h"

namespace optrush {
/// Published figures of a rung's change. The report shows them beside the measured ones.
struct Published {
  double speedup = 0;  ///< tokens/s over the rung below; 0: not said
  double memory = 0;   ///< peak memory over the rung below's; 0: not said
  std::string source;  ///< publication: a paper, a README
  std::string on;      ///< the device, a comma, the problem: "A100-80GB, sequence 2048"

  bool operator==(const Published&) const = default;
  /// Whether this GPU is one of those: its name has every part of the device's, as "NVIDIA A100-SXM4-80GB"
  /// has those of "A100-80GB".
  bool comparable_with(const std::string& device) const;
};

Json to_json(const Published&);
/// An Error names `where`.
Published published_from_json(const Json&, const std::string& where);

/// How a report shows a grid, beside the rows that every rung has. Without columns and x: not at all.
struct GridView {
  std::vector<std::string> axes;     ///< their names, where the script gives them
  std::vector<std::string> columns;  ///< of a table with a column for each axis: quantities of the report
  std::string against;               ///< a choice of one axis: changes against it stand in brackets
  std::string x;                     ///< a numeric setting ("train.seq_len") to draw curves over
  std::vector<std::string> curves;   ///< what is drawn over it: quantities of the report

  bool operator==(const GridView&) const = default;
};

Json to_json(const GridView&);
/// An Error names `where`.
GridView grid_view_from_json(const Json&, const std::string& where);

/// One named change, as the script wrote it.
struct Rung {
  std::string name;
  std::vector<PluginUse> plugins;
  Json settings = Json::object();  ///< merged into the spec: {"train": {...}, "model": {...}, "data": {...},
                                   ///< "device": ..}
  std::vector<std::string> replace;  ///< stacked plugins that this rung takes the place of
  std::vector<std::string> without;  ///< stacked plugins that this rung takes off
  std::string over;                  ///< rung of the same ladder below it; empty: the one before it
  std::string where;                 ///< "quickstart.lua:12"
  std::optional<External> external;  ///< a program that does the training instead of the worker
  std::optional<Published> expect;   ///< of its change, by others
};

enum class Arrangement : uint8_t { ladder, ablation, grid };

/// ladder: each rung on top of the one before, or of the one that it names. ablation: the full stack, the
/// stack less one rung at a time, each one alone. grid: every combination of one choice from each axis (axes:
/// rungs of one axis share `axis`). An external rung stands beside a ladder or an ablation, not in the stack:
/// it does the work of the rungs below it, and the next rung is put on those.
struct Part {
  Arrangement arrangement = Arrangement::ladder;
  std::vector<Rung> rungs;
  std::vector<std::vector<Rung>> axes;  ///< grid only
  GridView view;                        ///< grid only
};

/// Whether the runs of a round are interleaved step by step (docs/guides/running.md); automatic:
/// where that can be told to fit.
enum class Interleave : uint8_t { automatic, on, off };

/// An experiment as a script describes it, before expansion. Plain data; --dry-run prints it.
struct Experiment {
  std::string name, question, script;  ///< script: absolute path
  std::string script_sha256;
  Json arguments = Json::object();  ///< that the script read, given or not: {"layers": 8}
  RunSpec base;                     ///< rung 0: no plugin, unless the script gives some
  std::string base_name = "base";   ///< of rung 0
  std::vector<Part> parts;
  int64_t rounds = 5;
  std::optional<Until> until;  ///< instead of `rounds`: as many as it takes
  Interleave interleave = Interleave::automatic;
  double target_loss = 0;    ///< the report says how long each rung trains until it is there; 0: none
  bool trace = false;        ///< every rung's first round leaves a trace of one more step
  int64_t max_restarts = 0;  ///< of each run that saves its state, after faults
  std::string label = "local";
  double price_per_hour = 0;  ///< 0: unknown
  std::string currency = "USD";
};

/// One line of the report: a complete spec and its place.
struct Variant {
  int64_t index = 0;             ///< 0 is the base
  std::string name;              ///< of the rung; Experiment::base_name for 0
  std::string group;             ///< base | ladder | full | without | alone | grid | external
  int64_t previous = -1;         ///< variant that this one is compared with; -1 for the base
  RunSpec spec;                  ///< round 0
  std::vector<PluginUse> added;  ///< what the rung adds over `previous`, options as validated
  std::vector<std::string> removed;
  Json changed = Json::object();  ///< settings that differ from `previous`
  std::string where;
  std::optional<External> external;
  std::optional<Published> expect;  ///< of a rung of a ladder
  std::vector<std::string>
      passed_over;  ///< invalid rungs directly below, which are skipped: it is stacked on `previous` instead
  int64_t same_as = -1;  ///< earlier variant with the same stack, whose runs are this one's, too; -1: it has
                         ///< its own

  bool has_own_runs() const { return same_as < 0; }
  /// The variant whose runs this one shows.
  int64_t runs_of() const { return has_own_runs() ? index : same_as; }
};

/// The name of the variant of these choices in grid().
std::string grid_name(const std::vector<std::string>& choices);

/// Every variant in report order. Errors have the rung's place in the script. A rung of a ladder above one of
/// `cannot_be` is stacked on the rung below that one instead. A stack that an earlier part has already, or a
/// combination that is the base, is not run again (`same_as`). Equal rungs of one ladder are run separately,
/// because they show the random variation.
std::vector<Variant> expand(const Experiment&, const std::set<std::string>& cannot_be = {});

/// An experiment with its variants.
struct Expanded {
  Experiment experiment;
  std::vector<Variant> variants;

  explicit Expanded(Experiment one) : experiment(std::move(one)), variants(expand(experiment)) {}
};

Json to_json(const Experiment&);
Experiment experiment_from_json(const Json&, const std::string& where);
Json to_json(const Variant&);
Variant variant_from_json(const Json&, const std::string& where);

/// Folder name of a run: "03-flash-attention-r1", "03-flash-attention-probe".
std::string run_id(const Variant&, const RunSpec&);
}  // namespace optrush
