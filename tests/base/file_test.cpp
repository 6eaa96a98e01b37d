// SPDX-License-Identifier: Apache-2.0
#include "triax/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "triax/base/error.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() {
    std::string pattern = (fs::temp_directory_path() / "file.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~File() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static std::string error_of(const std::string& path, int64_t cap = 100) {
    try {
      read_file(path, cap);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(File, WritesAndReadsEveryByte) {
  const std::string text("a\0b\n\xff", 5);
  write_file_atomically(path("x"), text);
  EXPECT_EQ(read_file(path("x"), 5), text);
  write_file_atomically(path("x"), "");
  EXPECT_EQ(read_file(path("x"), 0), "");
}

TEST_F(File, LeavesNothingBesideTheFile) {
  write_file_atomically(path("x"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(File, KeepsTheOldFileWhenTheNewOneCannotBeWritten) {
  fs::create_directory(folder_ / "x");
  EXPECT_THROW(write_file_atomically(path("x"), "new"), Error);
  EXPECT_TRUE(fs::is_directory(folder_ / "x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(write_file_atomically(path("no/x"), "new"), Error);
}

TEST_F(File, SaysWhatIsInTheWay) {
  write_file_atomically(path("x"), std::string(101, 'a'));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(path("x")), testing::HasSubstr("101 bytes"));
  EXPECT_THAT(error_of(path("pipe")), testing::HasSubstr("pipe"));
  EXPECT_THAT(error_of(folder_.string()), testing::HasSubstr("folder"));
  EXPECT_THAT(error_of(path("no")), testing::HasSubstr("No such file"));
  EXPECT_THAT(error_of("/dev/zero"), testing::HasSubstr("device"));
  EXPECT_NE(error_of(""), "");
}

TEST_F(File, MapsWhatReadFileReads) {
  write_file_atomically(path("x"), "abc");
  MappedFile first(path("x"));
  MappedFile second(std::move(first));
  EXPECT_TRUE(first.bytes().empty());
  ASSERT_EQ(second.bytes().size(), 3u);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
  write_file_atomically(path("empty"), "");
  second = MappedFile(path("empty"));
  EXPECT_TRUE(second.bytes().empty());
  EXPECT_THROW(MappedFile(folder_.string()), Error);
}

}  // namespace
}  // namespace triax
