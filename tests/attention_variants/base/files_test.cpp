// Files appear whole or not at all; hashes and JSON errors.
#include "attention_variants/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "attention_variants/base/mapped_file.h"
#include "attention_variants/base/sha256.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// FIPS 180-4 examples.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Scratch scratch;
  write_file(scratch.path() / "a", std::string(1'000'000, 'a'));
  EXPECT_EQ(sha256_file(scratch.path() / "a"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(AtomicFile, NothingIsSeenBeforeCommit) {
  Scratch scratch;
  const fs::path path = scratch.path() / "f";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(scratch.path()), 1u);
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(AtomicFile, LeftoversOfAKilledWriterGoWithTheNext) {
  Scratch scratch;
  const fs::path path = scratch.path() / "f";
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write("half");
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(entries(scratch.path()), 1u);  // the partial file
  AtomicFile live(path);                   // a live writer's partial file stays
  write_file(path, "whole");
  EXPECT_EQ(entries(scratch.path()), 2u);
  live.write("later");
  live.commit();
  EXPECT_EQ(read_file(path), "later");
  EXPECT_EQ(entries(scratch.path()), 1u);
}

TEST(Sha256, OfPiecesIsThatOfTheWhole) {
  Sha256 hash;
  for (const char* piece : {"a", "", "bc"}) hash.add(piece);
  // FIPS 180-2, appendix B.1
  EXPECT_EQ(hash.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AtomicFile, ErrorsNamePathAndReason) {
  Scratch scratch;
  const fs::path missing = scratch.path() / "no" / "f";
  EXPECT_EQ(error_text([&] { write_file(missing, "x"); }),
            "cannot write " + missing.string() + ": No such file or directory");
  EXPECT_EQ(error_text([&] { write_file(scratch.path(), "x"); }),
            "cannot write " + scratch.path().string() + ": Is a directory");
  EXPECT_EQ(error_text([&] { read_file(missing); }),
            "cannot read " + missing.string() + ": No such file or directory");
  EXPECT_EQ(error_text([&] { read_file(scratch.path()); }),
            "cannot read " + scratch.path().string() + ": Is a directory");
  EXPECT_EQ(error_text([&] { MappedFile file(missing); }),
            "cannot read " + missing.string() + ": No such file or directory");
}

TEST(AtomicFile, ADeviceIsWrittenToAndStays) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  EXPECT_EQ(error_text([] { write_file("/dev/full", "x"); }),
            "cannot write /dev/full: No space left on device; free some space there or choose "
            "another place");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, WhatTakesAFilesPlaceHasItsPermissions) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "secret";
  write_file(file, "one");
  fs::permissions(file, fs::perms(0600));
  write_file(file, "two");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600));
  EXPECT_EQ(read_file(file), "two");
}

TEST(AtomicFile, APipeThatNoOneReadsIsNotWaitedFor) {
  const Scratch scratch;
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_text([&] { write_file(pipe, "x"); }),
            "cannot write " + pipe.string() + ": it is a pipe, and no one reads it");
}

TEST(AtomicFile, ALinkKeepsPointing) {
  Scratch scratch;
  write_file(scratch.path() / "target", "old");
  fs::create_symlink("target", scratch.path() / "link");
  write_file(scratch.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(scratch.path() / "link"));
  EXPECT_EQ(read_file(scratch.path() / "target"), "new");
}

TEST(AtomicFile, AFullDiskKeepsTheOldFileAndNothingElse) {
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const fs::path path = disk.path() / "f";
  write_file(path, "old");
  EXPECT_EQ(error_text([&] { write_file(path, std::string(1 << 20, 'x')); }),
            "cannot write " + path.string() + kFullDisk);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(disk.entries(), 1);
}

TEST(Json, MalformedTextGivesFileLineAndColumn) {
  Scratch scratch;
  const fs::path path = scratch.path() / "a.json";
  write_file(path, "{\n  \"a\": 1,\n  \"b\": @\n}");
  const std::string message = error_text([&] { read_json(path); });
  EXPECT_EQ(message.find(path.string() + " is not valid JSON: parse error at line 3, column 8"), 0u)
      << message;
}

TEST(Json, WhatIsNoUtf8OrNoNumberIsAnError) {
  EXPECT_EQ(error_text([] { parse_json("[\"\xff\"]", "text"); }),
            "text is not valid JSON: parse error at line 1, column 3: syntax error while parsing "
            "value - invalid string: ill-formed UTF-8 byte; last read: '\"\\xff'");
  EXPECT_EQ(error_text([] { parse_json("[1e999]", "text"); }),
            "text is not valid JSON: number overflow parsing '1e999'");
  const std::string message =
      error_text([] { parse_json("[\"" + std::string(10'000, 'x'), "text"); });
  EXPECT_LT(message.size(), 400u);
  EXPECT_TRUE(message.ends_with("xxx...")) << message;
}

TEST(Json, AKeyTwiceIsAnErrorAtAnyDepth) {
  EXPECT_EQ(error_text([] { parse_json(R"({"a": [{"b": 1, "b": 2}]})", "text"); }),
            "text: key 'b' stands twice");
  EXPECT_EQ(parse_json(R"({"a": {"b": 1}, "b": {"b": 2}})", "text")["b"]["b"], 2);
}

}  // namespace
}  // namespace lra
