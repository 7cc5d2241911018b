#include "runtime/comm/descriptor_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/handle.h"
#include "runtime/comm/descriptor_mailbox.h"

namespace dlflow::runtime {
namespace {

constexpr const char* kPurpose = "memory for the ranks of a node";

/// Parts begin at pages, which the kernel places near the core that first writes to them.
constexpr size_t kPage = 4096;

/// The bytes that a rank needs, and where it receives the descriptor.
struct MemoryRequest {
  DescriptorMailbox::Address address;
  uint64_t bytes;
};

FileDescriptor new_memory(size_t bytes) {
  FileDescriptor memory(::memfd_create("dlflow", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), off_t(bytes)) != 0) throw_errno(kPurpose, errno);
  return memory;
}

/// Shares the memory that the node's first rank created with all ranks of the node.
FileDescriptor share_memory(Communicator& comm, DescriptorMailbox& mailbox,
                            std::span<const MemoryRequest> requests, size_t bytes) {
  const std::vector<int> ranks = ranks_of_node(comm);
  const size_t own = size_t(comm.node_rank());
  FileDescriptor memory;
  if (own == 0) memory = new_memory(bytes);
  for (size_t reached = 1; reached < ranks.size(); reached *= 2) {
    if (own < reached && own + reached < ranks.size()) {
      DescriptorMailbox::send(requests[own + reached].address, int32_t(own), memory.get());
      comm.send({}, ranks[own + reached]);
    } else if (own >= reached && own < 2 * reached) {
      comm.receive({}, ranks[own - reached]);
      DescriptorMailbox::Letter letter = mailbox.receive();
      if (size_t(letter.sender) != own - reached) {
        throw Error(Errc::Corrupt, std::string(kPurpose) + ": a message from another rank");
      }
      memory = std::move(letter.descriptor);
    }
  }
  return memory;
}

}  // namespace

DescriptorMemory::DescriptorMemory(Communicator& comm, size_t bytes) {
  DescriptorMailbox mailbox(comm.node_size());
  const auto requests = gather_in_node(comm, MemoryRequest{mailbox.address(), bytes});
  std::vector<size_t> begins;
  for (const MemoryRequest& request : requests) {
    begins.push_back(bytes_);
    bytes_ += (std::max<size_t>(request.bytes, 1) + kPage - 1) / kPage * kPage;
  }
  const FileDescriptor memory = share_memory(comm, mailbox, requests, bytes_);
  memory_ =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (memory_ == MAP_FAILED) throw_errno(kPurpose, errno);
  for (const size_t begin : begins) parts_.push_back(static_cast<std::byte*>(memory_) + begin);
}

DescriptorMemory::~DescriptorMemory() { ::munmap(memory_, bytes_); }

}  // namespace dlflow::runtime
