#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace optrush {
/// The kind of an error. The kinds differ in their remedy, which docs/reference/errors.md gives. A code keeps
/// its name; the words of a message may change.
enum class ErrorCode : uint8_t {
  unsupported,    ///< a plugin or the program does not support what is combined here
  unknown_name,   ///< nothing has this name
  missing_value,  ///< a required field, option or argument is not given
  invalid_value,  ///< a value of another type, form or range than allowed
  conflict,       ///< two things that are given exclude each other
  wrong_ranks,    ///< the ranks that were started, or their number, do not fit
  usage,          ///< the command line is not understood
  script_error,   ///< Lua can't read the script, or ended it
  missing_file,
  invalid_file,         ///< damaged, incomplete, of another format, or changed by hand
  file_access,          ///< the system refuses to read, write, lock or create
  missing_requirement,  ///< this machine lacks a device, a library or a program
  network,              ///< a port or an address can't be used
  invalid_plugin,       ///< a plugin does not keep its contract
  diverged,             ///< the training computes values that are not finite, or trains nothing
  wrong_result,         ///< a check found other values than the reference
  rank_lost,            ///< another rank ended, or did not come in time
  out_of_memory,
  timeout,
  crashed,      ///< a process ended without an answer
  interrupted,  ///< a signal ended the program
  internal      ///< a fault of the program
};
std::string_view to_string(ErrorCode);
/// All names, in the order of the codes.
std::span<const std::string_view> names_of(ErrorCode);
}  // namespace optrush
