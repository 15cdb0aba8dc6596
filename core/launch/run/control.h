#pragma once
#include <string>

#include "launch/machine/hardware_names.h"
#include "launch/ranks/launcher.h"
#include "launch/ranks/rank.h"
#include "optrush/json.h"
#include "spec/spec_json.h"

namespace optrush {
// The processes of a job talk over one connection between rank 0 and each other one, a JSON object a line:
// hello     to rank 0, first: identity of this process
//   welcome   it is one of the job
//   refused   {reason, other_job}: it is not, and the connection ends; of another job it looks elsewhere
//   start     {run, spec, store, state, local_size}: start this rank's worker
//   terminate, kill   signals for that worker
//   seen      to rank 0: {run, phase, steps, log} how far the worker is, and the end of its log, now and then
//   end       to rank 0: {run, ...} how the worker ended
//   signal    to rank 0: {number} this process was asked to stop; rank 0 stops the job and says `done`
//   leave     to rank 0, last: {code, reason} this process ends without having been told to
//   done      {code, reason}: nothing more will be started; end with this exit code, which is rank 0's

/// Identity of a process of a job, and the values that all processes must share.
struct Hello {
  int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host, job, version, script_sha256;
  HardwareNames hardware;
};
Hello hello_of(const Launched&, const std::string& script_sha256);
Json to_json(const Hello&);
/// An Error where it is none.
Hello hello_from_json(const Json&);
/// Why a process that says this is not of rank 0's job: another job, script or version; "" where it is.
std::string refusal(const Hello& rank_0, const Hello& other);

Json to_json(const RankEnd&);
/// An Error where it is none.
RankEnd rank_end_from_json(const Json&);

Json to_json(const Seen&);
/// An Error where it is none.
Seen seen_from_json(const Json&);
/// Of `signal`: an Error where it is none that asks to stop.
int stop_signal_from_json(const Json&);
/// Of `done` and `leave`.
struct Farewell {
  int code = 0;
  std::string reason;  ///< "" where all is well
};
Json to_json(const Farewell&, const char* type);
/// An Error where it is none.
Farewell farewell_from_json(const Json&);

/// How long processes of a job wait for each other at its start: OPTRUSH_JOIN_TIMEOUT, or 60 s.
double join_timeout_s();
/// How long a run that was told to stop may save its state: OPTRUSH_SAVE_TIMEOUT, or 25 s, as launchers
/// mostly wait 30 s between SIGTERM and SIGKILL.
double save_timeout_s();
/// Advice for the case that processes do not find each other.
std::string advice_on_joining(const Launched&);
/// "node1:29501".
std::string control_address(const Launched&);
}  // namespace optrush
