// Reading public data in place: every format, and every way in which a source can be bad.
#include "lra/formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/archives.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::pair<std::string, std::string>>;

class Archives : public ::testing::Test {
 protected:
  static Files read(const fs::path& path) {
    Files files;
    Source(path).visit(
        [&](SourceFile& file) { files.emplace_back(file.name(), file.read_all(1 << 24)); });
    return files;
  }
  // The message of a visit that reads nothing of what it is shown.
  static std::string error_of(const fs::path& path) {
    return error_text([&] { Source(path).visit([](SourceFile&) {}); });
  }
  // The message for a tar with one entry.
  std::string entry_error(const ArchiveEntry& entry) {
    write_archive(tar_, {entry});
    return error_of(tar_);
  }

  Scratch scratch_;
  fs::path folder_ = scratch_.path(), tar_ = folder_ / "a.tar";
  // More than any buffer holds, and hard to compress.
  std::string large_ = random_text(700'000);
};

TEST_F(Archives, EveryFormatGivesTheSameFiles) {
  const Files files = {{"b/large.txt", large_}, {"a.txt", "one\n"}, {"b/empty", ""}};
  std::vector<ArchiveEntry> entries;
  for (const auto& [name, content] : files) entries.push_back({.name = name, .content = content});
  for (const char* name : {"x.tar", "x.tar.gz", "x.tar.xz", "x.zip"}) {
    write_archive(folder_ / name, entries);
    EXPECT_EQ(read(folder_ / name), files) << name;
    EXPECT_EQ(error_of(folder_ / name), "(no error)") << name;
  }
}

TEST_F(Archives, AFolderGivesItsFilesSortedAndFollowsLinks) {
  const fs::path root = folder_ / "root";
  fs::create_directories(root / "b");
  write_file(root / "b" / "two", "2");
  write_file(root / "a", "1");
  write_file(root / "._a", "left by a file manager");
  write_file(folder_ / "outside", "3");
  fs::create_symlink(folder_ / "outside", root / "c");
  fs::create_directory(folder_ / "other");
  write_file(folder_ / "other" / "four", "4");
  fs::create_directory_symlink(folder_ / "other", root / "d");
  EXPECT_EQ(read(root), (Files{{"a", "1"}, {"b/two", "2"}, {"c", "3"}, {"d/four", "4"}}));
  for (const fs::path& above : {root, folder_}) {
    fs::create_directory_symlink(above, root / "b" / "loop");
    EXPECT_NE(error_of(root).find("b/loop is a link to a folder that it lies in; remove it"),
              std::string::npos)
        << error_of(root);
    fs::remove(root / "b" / "loop");
  }
  fs::remove(folder_ / "outside");
  EXPECT_EQ(error_of(root),
            (root / "c").string() + " is a link to what is not there; mend or remove it");
}

// Made by Python's zipfile, which marks names as UTF-8: tests/parity/make_zip_fixture.py.
TEST_F(Archives, NamesInUtf8AreReadWhateverTheLocale) {
  EXPECT_EQ(read(fs::path(LRA_SOURCE_DIR) / "tests" / "fixtures" / "utf8-names.zip"),
            (Files{{"a.txt", "one"}, {"\xc3\x9c/\xe4\xb8\xad.txt", "two"}}));
}

TEST_F(Archives, LeadingDotsAreDropped) {
  write_archive(tar_, {{.name = "./a//b/./c.txt", .content = "1"}});
  EXPECT_EQ(read(tar_), (Files{{"a/b/c.txt", "1"}}));
}

TEST_F(Archives, NoPathLeadsOut) {
  const std::string a = tar_.string() + ": entry '";
  EXPECT_EQ(entry_error({.name = "../x", .content = "1"}),
            a + "../x' leads out of the archive; such archives are not read");
  EXPECT_EQ(entry_error({.name = "a/../../x", .content = "1"}),
            a + "a/../../x' leads out of the archive; such archives are not read");
  EXPECT_EQ(entry_error({.name = "/etc/x", .content = "1"}),
            a + "/etc/x' has an absolute path; such archives are not read");
}

// A message is one line of UTF-8, whatever an archive calls its files.
TEST_F(Archives, NamesAreMadePrintableInMessages) {
  EXPECT_EQ(entry_error({.name = "a\n\x1b[2J/../x", .content = "1"}),
            tar_.string() +
                ": entry 'a\\n\\x1b[2J/../x' leads out of the archive; such archives are not read");
  const std::string many(1000, 'x');
  EXPECT_EQ(entry_error({.name = fmt::format("/{}", many), .content = "1"}),
            fmt::format("{}: entry '/{}...' has an absolute path; such archives are not read",
                        tar_.string(), many.substr(0, 199)));
  const std::string name = "a\nb";
  write_archive(tar_, {{.name = name, .content = "1"}});
  write_file(folder_ / name, "2");
  for (const fs::path& path : {tar_, folder_}) {
    std::string where, content;
    Source(path).visit([&](SourceFile& file) {
      if (file.name() != name) return;
      where = file.where();
      content = file.read_all(100);
    });
    EXPECT_TRUE(where.ends_with("a\\nb")) << where;
    EXPECT_EQ(content, path == tar_ ? "1" : "2");
  }
}

TEST_F(Archives, LinksAndDevicesAreRefused) {
  const std::string a = tar_.string() + ": entry '",
                    links =
                        "' is a link; links in archives are not followed: unpack it and give the "
                        "folder";
  EXPECT_EQ(entry_error({.name = "x", .link = "/etc/passwd"}), a + "x" + links);
  EXPECT_EQ(entry_error({.name = "x", .link = "y", .hard = true}), a + "x" + links);
  EXPECT_EQ(entry_error({.name = "x", .type = AE_IFIFO}),
            a + "x' is a device or a pipe; such archives are not read");
  EXPECT_EQ(entry_error({.name = "x", .type = AE_IFCHR}),
            a + "x' is a device or a pipe; such archives are not read");
}

TEST_F(Archives, EveryCutIsAnErrorThatNamesTheArchive) {
  for (const char* name : {"x.tar", "x.tar.gz", "x.tar.xz", "x.zip"}) {
    const fs::path path = folder_ / name;
    write_archive(path,
                  {{.name = "a.txt", .content = "one"}, {.name = "b.txt", .content = large_}});
    const std::string whole = read_file(path);
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{100}, whole.size() / 2, whole.size() - 10'000}) {
      write_file(path, whole.substr(0, size));
      const std::string message = error_of(path);
      EXPECT_EQ(message.rfind(path.string(), 0), 0u) << name << " " << size << ": " << message;
      EXPECT_NE(message.find("; it is cut short or damaged, or no tar (plain, gzip, xz) or zip"),
                std::string::npos)
          << name << " " << size << ": " << message;
    }
    write_file(path, whole.substr(0, whole.size() / 2));
    EXPECT_EQ(error_of(path).rfind(path.string() + ", at b.txt: ", 0), 0u) << error_of(path);
  }
}

// Where a download of whole blocks stops, libarchive sees nothing wrong between two entries.
TEST_F(Archives, ATarCutAtAnyBlockIsAnError) {
  write_archive(tar_, {{.name = "a.txt", .content = "one"}, {.name = "b.txt", .content = "two"}});
  const std::string whole = read_file(tar_);
  const size_t content = 4 * 512;  // of two entries: a header and a block each
  for (size_t size = 512; size <= content + 512; size += 512) {
    write_file(tar_, whole.substr(0, size));
    EXPECT_NE(error_of(tar_).find("; it is cut short or damaged"), std::string::npos)
        << size << ": " << error_of(tar_);
  }
  write_file(tar_, whole.substr(0, content + 1024));
  EXPECT_EQ(error_of(tar_), "(no error)") << "two blocks of zeros are its end";
}

// Behind a zip's last file stands its directory, which a reader of streams does without.
TEST_F(Archives, AZipCutAnywhereBehindAFileIsAnError) {
  const fs::path zip = folder_ / "x.zip";
  write_archive(zip, {{.name = "a.txt", .content = "one"}, {.name = "b.txt", .content = "two"}});
  const std::string whole = read_file(zip);
  const size_t directory = whole.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  for (size_t size = directory; size < whole.size(); ++size) {
    write_file(zip, whole.substr(0, size));
    EXPECT_NE(error_of(zip).find("; it is cut short or damaged"), std::string::npos)
        << size << " of " << whole.size() << ": " << error_of(zip);
  }
  for (const size_t comment : {size_t{3}, size_t{0xFFFF}}) {
    std::string longer = whole + std::string(comment, 'c');
    longer[whole.size() - 2] = static_cast<char>(comment % 256);
    longer[whole.size() - 1] = static_cast<char>(comment / 256);
    write_file(zip, longer);
    EXPECT_EQ(error_of(zip), "(no error)") << comment;
  }
}

// A stream that is whole, of an archive that goes on in the next.
TEST_F(Archives, ACompressedTarWithoutItsLastStreamIsAnError) {
  write_archive(tar_, {{.name = "a.txt", .content = "one"}, {.name = "b.txt", .content = "two"}});
  const std::string whole = read_file(tar_);
  for (const char* program : {"gzip", "xz"}) {
    const fs::path packed = folder_ / (std::string("cut.tar.") + program);
    for (const auto& [size, error] :
         {std::pair<size_t, bool>{1024, true}, {1025, true}, {whole.size(), false}}) {
      write_file(folder_ / "part", whole.substr(0, size));
      const std::string command =
          fmt::format("{} -c < {} > {}", program, (folder_ / "part").string(), packed.string());
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
      EXPECT_EQ(error_of(packed).find("it is cut short") != std::string::npos, error)
          << program << " " << size << ": " << error_of(packed);
    }
  }
}

// The last bytes are a checksum, which only who reads to the end compares.
TEST_F(Archives, ACutChecksumIsAnError) {
  for (const char* name : {"x.tar.gz", "x.tar.xz"}) {
    const fs::path path = folder_ / name;
    write_archive(path, {{.name = "a.txt", .content = "one"}});
    const std::string whole = read_file(path);
    write_file(path, whole.substr(0, whole.size() - 3));
    EXPECT_EQ(error_of(path).rfind(path.string(), 0), 0u) << name << ": " << error_of(path);
  }
}

// One bit of the content, whether or not anybody reads that content.
TEST_F(Archives, AWrongChecksumIsAnError) {
  for (const char* name : {"x.tar.gz", "x.tar.xz", "x.zip"}) {
    const fs::path path = folder_ / name;
    write_archive(path,
                  {{.name = "a.txt", .content = "one"}, {.name = "b.txt", .content = large_}});
    const std::string whole = read_file(path);
    for (const size_t at : {whole.size() / 3, whole.size() / 2}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      write_file(path, damaged);
      EXPECT_EQ(error_of(path).rfind(path.string() + ", at b.txt: ", 0), 0u)
          << name << ": " << error_of(path);
    }
    // The stored checksum itself: the eighth byte from the end of gzip.
    if (std::string(name) != "x.tar.gz") continue;
    std::string damaged = whole;
    damaged[whole.size() - 8] = static_cast<char>(damaged[whole.size() - 8] ^ 1);
    write_file(path, damaged);
    EXPECT_NE(error_of(path).find("incorrect data check"), std::string::npos) << error_of(path);
  }
}

TEST_F(Archives, EncryptedEntriesAreNotCalledDamaged) {
  const fs::path zip = folder_ / "secret.zip";
  archive* writer = archive_write_new();
  archive_write_set_format_zip(writer);
  ASSERT_EQ(archive_write_set_options(writer, "zip:encryption=zipcrypt"), ARCHIVE_OK)
      << archive_error_string(writer);
  archive_write_set_passphrase(writer, "word");
  ASSERT_EQ(archive_write_open_filename(writer, zip.c_str()), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, "a.txt");
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_size(entry, 4);
  ASSERT_EQ(archive_write_header(writer, entry), ARCHIVE_OK) << archive_error_string(writer);
  archive_write_data(writer, "text", 4);
  archive_entry_free(entry);
  archive_write_free(writer);
  EXPECT_EQ(error_of(zip), zip.string() +
                               ", at a.txt: it is encrypted; give the folder, or an "
                               "archive without a password");
}

TEST_F(Archives, WhatIsNoSourceIsNamed) {
  EXPECT_EQ(error_text([&] { Source(folder_ / "none"); }),
            "there is no folder or archive " + (folder_ / "none").string());
  fs::create_symlink(folder_ / "circle", folder_ / "circle");
  EXPECT_EQ(error_text([&] { Source(folder_ / "circle"); }),
            "cannot read " + (folder_ / "circle").string() +
                ": Too many levels of symbolic links; its symbolic links lead in a circle: remove "
                "one");
  EXPECT_EQ(error_text([&] { Source("/dev/null"); }),
            "/dev/null is neither a folder nor an archive");
  write_file(folder_ / "x.tar", "label\ttext\n" + large_);
  EXPECT_EQ(error_of(folder_ / "x.tar"),
            (folder_ / "x.tar").string() +
                ": Unrecognized archive format; it is cut short or damaged, or no tar (plain, "
                "gzip, xz) or zip");
}

TEST_F(Archives, LinesEndInAnyWayAndAreCounted) {
  const std::string longest(200'000, 'x');
  write_archive(tar_, {{.name = "a.txt", .content = "one\r\n\ntwo\n" + longest + "\nlast"}});
  std::vector<std::string> lines;
  std::string where;
  Source(tar_).visit([&](SourceFile& file) {
    SourceLines in(file);
    for (std::string line; in.next(line);) lines.push_back(line);
    where = in.where();
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two", longest, "last"}));
  EXPECT_EQ(where, tar_.string() + ": a.txt:5");
}

TEST_F(Archives, TooMuchIsAnError) {
  write_archive(tar_, {{.name = "a.txt", .content = large_}});
  EXPECT_EQ(error_text([&] { Source(tar_).visit([](SourceFile& file) { file.read_all(1000); }); }),
            tar_.string() + ": a.txt should have at most 1000 bytes, it has more");
}

TEST_F(Archives, StopsWhenAskedTo) {
  write_archive(tar_, {{.name = "a.txt", .content = large_}});
  write_file(folder_ / "b.txt", "1");
  const std::atomic<bool> stop{true};
  for (const fs::path& path : {tar_, folder_}) {
    EXPECT_EQ(error_text([&] { Source(path).visit([](SourceFile&) {}, {.stop = &stop}); }),
              "stopped while reading " + path.string() + "; nothing was written");
  }
}

TEST_F(Archives, ProgressEndsAtTheTotal) {
  write_archive(folder_ / "a.tar.gz", {{.name = "a.txt", .content = large_}});
  for (const fs::path& path : {folder_ / "a.tar.gz", folder_}) {
    int64_t last = 0, all = -1;
    Source(path).visit([](SourceFile&) {}, {.progress = [&](int64_t done, int64_t total) {
                         EXPECT_GE(done, last);
                         last = done;
                         all = total;
                       }});
    EXPECT_EQ(last, all);
  }
}

}  // namespace
}  // namespace lra
