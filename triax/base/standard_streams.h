// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triax {

/// Opens /dev/null on those of the descriptors 0, 1 and 2 that are closed, so
/// that no file opened later becomes a standard stream. First thing in main().
void open_standard_streams();

/// A write beyond the limit of a file's size (ulimit -f) then fails with
/// EFBIG, which the writer can say, instead of killing the process.
void let_large_writes_fail();

/// `exit_code`, or 1 and a line in the log where what was written to stdout
/// did not arrive (a full disk, a closed pipe). Last thing in main().
int finish_standard_output(int exit_code);

}  // namespace triax
