// FilePlace: where a file that the library writes goes, found without following another user's
// link. In a folder where everybody may make files, such as /tmp, a link of the expected name would
// have the library replace a file of its own user that the link's maker chose.
#ifndef SINTER_SRC_BASE_FILE_PLACE_H_
#define SINTER_SRC_BASE_FILE_PLACE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sinter {

// The folder of a file, open, and the file's name in it: what happens to folders and links of the
// path afterwards changes nothing. Links of this user and of root are followed.
class FilePlace {
 public:
  // UNAVAILABLE with the call and the path: a folder that is not there, or a link that leads
  // nowhere. PERMISSION_DENIED: a link, or in a
  // folder where everybody may make files a pipe, that another user made. INVALID_ARGUMENT: a
  // folder.
  static absl::StatusOr<FilePlace> Of(const std::string& path);

  FilePlace(FilePlace&& other) noexcept
      : folder_(std::exchange(other.folder_, -1)),
        name_(std::move(other.name_)),
        path_(std::move(other.path_)),
        special_(other.special_) {}
  FilePlace& operator=(FilePlace&& other) = delete;
  ~FilePlace();

  int folder() const { return folder_; }  // of O_PATH
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // Whether a device or a pipe has the name, or a link of that name leads to one: it is written
  // into.
  bool special() const { return special_; }

  // Opens a special file for writing, without blocking. -1 with errno.
  int OpenSpecial() const;

 private:
  FilePlace() = default;
  absl::Status Walk(std::string rest);

  int folder_ = -1;
  std::string name_, path_;
  bool special_ = false;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FILE_PLACE_H_
