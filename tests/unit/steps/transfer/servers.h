#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "tests/support/temp_dir.h"

/// Web servers on this machine: a real one, one with answers of a test, one whose connections
/// break.
namespace dlflow::test {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A socket bound to a free port of the loopback interface, and that port.
inline std::pair<FileDescriptor, uint16_t> bind_free_port() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  DLFLOW_CHECK(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  DLFLOW_CHECK(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return {std::move(socket), ntohs(address.sin_port)};
}

inline bool accepts_connections(uint16_t port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// nginx with its own folder. Below /slow/ it sends 200 kB/s, and below /redirect/ it redirects
/// clients to a local file.
class Nginx {
 public:
  /// Null if nginx is not installed.
  static std::unique_ptr<Nginx> start() {
    if (::access("/usr/sbin/nginx", X_OK) != 0) return nullptr;
    return std::unique_ptr<Nginx>(new Nginx);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;
  ~Nginx() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  /// Makes `content` available as /NAME and returns its address.
  std::string serve(const std::string& name, const std::string& content) const {
    folder_.write("www/" + name, content);
    return url(name);
  }
  std::string url(const std::string& name) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }

  /// The number of requests in the access log that contain `text`, such as "GET /x HTTP/1.1\" 206".
  /// nginx writes an entry after the answer was read, so this waits for the first one.
  size_t count_requests(const std::string& text) const {
    for (int i = 0; i < 500 && count_in_log(text) == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return count_in_log(text);
  }

 private:
  size_t count_in_log(const std::string& text) const {
    const std::string log = read_file_if_exists(folder_.path() / "access.log").value_or("");
    size_t count = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }

  Nginx() {
    port_ = bind_free_port().second;
    const std::string root = folder_.path().string();
    const std::string www = root + "/www/";
    folder_.write("www/index.html", "");
    const auto config =
        folder_.write("nginx.conf", "daemon off; master_process off; pid " + root +
                                        "/pid; events {}\n"
                                        "http { access_log " +
                                        root + "/access.log; client_body_temp_path " + root +
                                        "/t;\n"
                                        "proxy_temp_path " +
                                        root + "/t; fastcgi_temp_path " + root +
                                        "/t;\n"
                                        "uwsgi_temp_path " +
                                        root + "/t; scgi_temp_path " + root +
                                        "/t;\n"
                                        "server { listen 127.0.0.1:" +
                                        std::to_string(port_) + "; root " + www +
                                        ";\n"
                                        "location /slow/ { alias " +
                                        www +
                                        "; limit_rate 200k; }\n"
                                        "location /redirect/ { return 302 file:///etc/passwd; }\n"
                                        "location /forbidden/ { return 403; } } }\n");
    pid_ = ::fork();
    DLFLOW_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::execl("/usr/sbin/nginx", "nginx", "-p", root.c_str(), "-e", (root + "/error.log").c_str(),
              "-c", config.c_str(), nullptr);
      ::_exit(127);
    }
    while (!accepts_connections(port_)) {
      DLFLOW_CHECK(::waitpid(pid_, nullptr, WNOHANG) == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  TempDir folder_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

/// A server that sends the `answer` to a request and closes the connection; an endless one then
/// sends letters until its client disconnects.
class AnsweringServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  enum class Ends { Yes, Never };

  explicit AnsweringServer(Answer answer, Ends ends = Ends::Yes)
      : answer_(std::move(answer)), ends_(ends) {
    std::tie(socket_, port_) = bind_free_port();
    DLFLOW_CHECK(::listen(socket_.get(), 16) == 0);
    thread_ = std::thread([this] { serve(); });
  }
  AnsweringServer(const AnsweringServer&) = delete;
  AnsweringServer& operator=(const AnsweringServer&) = delete;
  ~AnsweringServer() {
    ::shutdown(socket_.get(), SHUT_RDWR);  // wakes accept()
    thread_.join();
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void serve() {
    while (true) {
      const FileDescriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;
      std::string request(4096, '\0');
      const ssize_t got = ::recv(client.get(), request.data(), request.size(), 0);
      request.resize(size_t(std::max<ssize_t>(got, 0)));
      const std::string answer = answer_(request);
      const std::string more(size_t{1} << 16, 'x');
      ssize_t sent = ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      while (ends_ == Ends::Never && sent >= 0) {
        sent = ::send(client.get(), more.data(), more.size(), MSG_NOSIGNAL);
      }
    }
  }

  Answer answer_;
  Ends ends_;
  FileDescriptor socket_;
  uint16_t port_ = 0;
  std::thread thread_;
};

/// A server whose connections break after `bytes_per_connection` bytes of its only content.
class DyingServer {
 public:
  struct Behaviour {
    size_t bytes_per_connection = 0;
    bool knows_ranges = true;
    std::string etag = "\"1\"";
  };

  DyingServer(std::string content, Behaviour behaviour)
      : content_(std::move(content)), behaviour_(std::move(behaviour)) {}

  std::string url() const { return "http://" + server_.host() + "/file"; }
  int num_connections() const { return num_connections_; }

 private:
  std::string answer(const std::string& request) {
    ++num_connections_;
    size_t offset = 0;
    const size_t range = request.find("Range: bytes=");
    if (behaviour_.knows_ranges && range != std::string::npos) {
      offset = std::stoul(request.substr(range + 13));
    }
    std::string answer = offset == 0 ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 206 Partial Content\r\n";
    answer += "Content-Length: " + std::to_string(content_.size() - offset) + "\r\n";
    if (offset > 0) {
      answer += "Content-Range: bytes " + std::to_string(offset) + "-" +
                std::to_string(content_.size() - 1) + "/" + std::to_string(content_.size()) +
                "\r\n";
    }
    answer += "ETag: " + behaviour_.etag + "\r\n\r\n";
    return answer + content_.substr(offset, behaviour_.bytes_per_connection);
  }

  std::string content_;
  Behaviour behaviour_;
  std::atomic<int> num_connections_{0};
  AnsweringServer server_{[this](const std::string& request) { return answer(request); }};
};

}  // namespace dlflow::test
