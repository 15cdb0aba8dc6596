#pragma once
#include <stdexcept>
#include <string>

#include "optrush/error_code.h"

namespace optrush {
/// An error for the user: its code, the problem, its place and the remedy. what() joins the texts:
/// "experiments/x.lua:12: unknown option 'rnk' of plugin 'adapter'\n  hint: did you mean 'rank'?"
class Error : public std::runtime_error {
 public:
  Error(ErrorCode, std::string what, std::string cure = {}, std::string where = {});
  /// For plugins: ErrorCode::unsupported, as most plugins refuse a combination.
  explicit Error(std::string what, std::string cure = {}, std::string where = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& cure() const { return cure_; }
  const std::string& where() const { return where_; }
  /// The same error with a place, if it has none yet.
  Error at(const std::string& where) const;

 private:
  ErrorCode code_;
  std::string message_, cure_, where_;
};

/// This machine lacks a requirement of the rung (a GPU, torch in Python), or the rung does not apply. The
/// rung is skipped, with this reason and remedy.
class Skip : public Error {
 public:
  using Error::Error;
  /// ErrorCode::missing_requirement
  explicit Skip(std::string what, std::string cure = {}, std::string where = {});
};

/// An error of the command line: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
  /// ErrorCode::usage
  explicit UsageError(std::string what, std::string cure = {}, std::string where = {});
  /// What was refused was given on the command line.
  explicit UsageError(const Error& error) : Error(error) {}
};
}  // namespace optrush
