#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "results/noise_line.h"
#include "results/result_text.h"

namespace optrush {
/// A part of a stored file. Results are long, so it is read when it is wanted.
struct StoredText {
  std::filesystem::path file = {};
  size_t offset = 0, size = 0;
  std::string own = {};  ///< the text itself, where no part of a file is it
  std::string read() const;
};

struct StoredRun {
  std::string id;  ///< name of its folder
  RunSpec spec;
  RunResult result;
  StoredText raw;                                ///< the result as it was written
  std::filesystem::file_time_type written = {};  ///< when that was
  std::vector<std::string> traces = {};          ///< of a step, one a rank: paths in the report's folder
};

/// A report's folder, read whole. Runs that have no result yet are not in it.
struct Stored {
  std::filesystem::path folder;
  Experiment experiment;
  std::vector<Variant> variants;
  Plans plans;
  Json context = Json::object();
  std::vector<StoredRun> runs;   ///< by id
  std::vector<NoiseLine> noise;  ///< one for each probe of the machine
  Json tried = {};               ///< what a search considered (tried.json); null: this was none
};

/// Of a folder without experiment.json, results.json has all of it, as it is kept beside a report that others
/// read. Strict on what is there, an Error with the file's name otherwise; plans, context and runs may be
/// missing, as an experiment may end at any moment.
Stored load_report(const std::filesystem::path& folder, const ResultParts& = ResultParts::of_report());
/// Brings `runs` up to date with the folder, of which it reads the results alone that are new or were
/// replaced.
void load_new_runs(Stored&);
}  // namespace optrush
