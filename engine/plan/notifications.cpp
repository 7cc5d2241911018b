#include "engine/plan/notifications.h"

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;
using enum Notifications::Event;

fs::path notify_file(const fs::path& run_directory) { return run_directory / "notify.json"; }

}  // namespace

void write_notifications(const fs::path& run_directory, const Notifications& notify) {
  if (notify.empty()) return;
  Json on = Json::array();
  for (const Notifications::Event event : notify.on) on.push_back(name(event));
  const Json json = {
      {"on", on}, {"command", notify.command}, {"mail", notify.mail}, {"webhook", notify.webhook}};
  write_file_atomic(notify_file(run_directory), json.dump(1) + "\n", Durability::Synced);
}

std::optional<Notifications> read_notifications(const fs::path& run_directory) {
  const auto text = read_file_if_exists(notify_file(run_directory));
  if (!text) return std::nullopt;
  try {
    const Json json = parse_json(*text);
    Notifications notify;
    const auto on = json.at("on").get<std::set<std::string>>();
    for (const Notifications::Event event : {End, Failure, NoProgress}) {
      if (on.contains(std::string(name(event)))) notify.on.insert(event);
    }
    notify.command = json.at("command").get<std::vector<std::string>>();
    notify.mail = json.at("mail").get<std::vector<std::string>>();
    notify.webhook = json.at("webhook").get<std::string>();
    return notify;
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, notify_file(run_directory).string() + ": " + reason_of(error));
  }
}

}  // namespace dlflow
