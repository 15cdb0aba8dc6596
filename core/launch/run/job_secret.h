#pragma once
#include <string>
#include <string_view>

namespace optrush {
/// What every process of a job knows and no other user does. It is in no log, spec, result or command line.
struct JobSecret {
  std::string bytes;  ///< "": there is none, so anyone who reaches a port may join
};

/// Random bytes from the kernel, as for keys.
std::string random_bytes(size_t);
std::string hexadecimal(std::string_view bytes);

/// The value of OPTRUSH_JOB_SECRET, "" if it is not set. Removes the variable, so that no process that is
/// started later inherits it.
std::string take_given_secret();

/// The secret of this user's jobs: `given`, otherwise the content of a file in the home folder, which the
/// first job makes. Without both, a job of one machine has an empty secret; one of several machines gets an
/// Error. Throws an Error if the secret is short, or if another user may know the file's content.
JobSecret job_secret(const std::string& given, bool one_machine);
}  // namespace optrush
