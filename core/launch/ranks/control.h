#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "launch/ranks/launcher.h"
#include "launch/ranks/rank.h"
#include "optrush/json.h"
#include "spec/spec_json.h"

namespace optrush {
// Messages between rank 0 of a job and each other process, over one connection, one JSON object per line.
// To rank 0:
//   hello     first: identity of the process
//   seen      {run, phase, steps, log}: progress of the worker and the end of its log, repeatedly
//   end       {run, ...}: how the worker ended
//   signal    {number}: the process was asked to stop; rank 0 stops the job and sends `done`
//   leave     {code, reason}: last, if the process ends without `done`
// From rank 0:
//   welcome   the process belongs to the job
//   refused   {reason, other_job}: it does not, and the connection ends; if it belongs to another job, it
//             tries another port
//   start     {run, spec, store, state, local_size}: start the worker of this rank
//   terminate, kill   signals for that worker
//   done      {code, reason}: the job is over; end with rank 0's exit code

/// The processors of a machine as the kernel and the driver name them, without loading CUDA.
struct HardwareNames {
  std::string cpu;   ///< "AMD EPYC 9654 96-Core Processor"; "": not known
  std::string gpus;  ///< "8 x NVIDIA H100 80GB HBM3", of the whole machine; "": none
  bool operator==(const HardwareNames&) const = default;
};
/// `root`: root of the file system.
HardwareNames read_hardware_names(const std::filesystem::path& root = "/");

/// Identity of a process of a job, and the values that all processes must share.
struct Hello {
  int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host, job, version, script_sha256;
  HardwareNames hardware;
};
Hello hello_of(const Launched&, const std::string& script_sha256);
// Functions that read a message throw an Error if it is invalid.
Json to_json(const Hello&);
Hello hello_from_json(const Json&);
/// The reason why a process does not belong to rank 0's job: another job, script or version; "" if it does.
std::string refusal(const Hello& rank_0, const Hello& other);

Json to_json(const RankEnd&);
RankEnd rank_end_from_json(const Json&);

Json to_json(const Seen&);
Seen seen_from_json(const Json&);
/// Reads `signal`, which must request a stop.
int stop_signal_from_json(const Json&);
/// The content of `done` and `leave`.
struct ClosingMessage {
  int code = 0;
  std::string reason;  ///< "" after success
};
Json to_json(const ClosingMessage&, const char* type);
ClosingMessage closing_message_from_json(const Json&);

/// Seconds for the processes of a job to find each other: OPTRUSH_JOIN_TIMEOUT, or 60 s.
double join_timeout_s();
/// Seconds for a run to save its state after SIGTERM: OPTRUSH_SAVE_TIMEOUT, or 25 s, because launchers
/// usually wait 30 s before SIGKILL.
double save_timeout_s();
/// Advice if processes do not find each other.
std::string advice_on_joining(const Launched&);
}  // namespace optrush
