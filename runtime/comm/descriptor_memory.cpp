#include "runtime/comm/descriptor_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/handle.h"
#include "runtime/comm/descriptor_mailbox.h"

namespace dlflow::runtime {
namespace {

constexpr const char* kPurpose = "memory for the ranks of a node";

struct Part {
  DescriptorMailbox::Address address;
  uint64_t bytes;
};

}  // namespace

DescriptorMemory::DescriptorMemory(Communicator& comm, size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  const FileDescriptor memory(::memfd_create("dlflow", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), off_t(bytes)) != 0) throw_errno(kPurpose, errno);
  DescriptorMailbox mailbox(comm.node_size());
  const auto parts = gather_in_node(comm, Part{mailbox.address(), bytes});
  const size_t ranks = parts.size(), own = size_t(comm.node_rank());
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (rank != own) DescriptorMailbox::send(parts[rank].address, int32_t(own), memory.get());
  }
  gather_in_node(comm, char{});  // everybody has sent before anybody looks
  parts_.resize(ranks);
  bytes_.resize(ranks);
  map(own, memory.get(), bytes);
  for (size_t others = 1; others < ranks; ++others) {
    const DescriptorMailbox::Letter letter = mailbox.receive();
    const auto sender = size_t(letter.sender);
    if (sender >= ranks || parts_[sender] != nullptr) {
      throw Error(Errc::Corrupt, std::string(kPurpose) + ": a letter of no rank");
    }
    map(sender, letter.descriptor.get(), parts[sender].bytes);
  }
}

DescriptorMemory::~DescriptorMemory() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] != nullptr) ::munmap(parts_[i], bytes_[i]);
  }
}

void DescriptorMemory::map(size_t rank, int descriptor, size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (memory == MAP_FAILED) throw_errno(kPurpose, errno);
  parts_[rank] = static_cast<std::byte*>(memory);
  bytes_[rank] = bytes;
}

}  // namespace dlflow::runtime
