// xallocator_rules.cpp: the rules of xallocator_rules.hpp.
#include "xallocator_rules.hpp"

#include <climits>
#include <new>

namespace xallocator_rules {

// ---- one size of block -----------------------------------------------------------------------

Block_allocator::Block_allocator(std::size_t size, unsigned objects, char *pool, const char *name)
    : block_size_(size < sizeof(Free_block) ? sizeof(Free_block) : size), object_size_(size),
      max_objects_(objects), name_(name) {
    if (objects == 0) {
        mode_ = Mode::heap_blocks;
    } else if (pool) {
        mode_ = Mode::static_pool;
        pool_ = pool;
    } else {
        mode_ = Mode::heap_pool;
        pool_ = new char[block_size_ * objects];
    }
}

Block_allocator::~Block_allocator() {
    if (mode_ == Mode::heap_pool) {
        delete[] pool_;
    } else if (mode_ == Mode::heap_blocks) {
        while (head_) delete[] static_cast<char *>(pop());
    }
}

void *Block_allocator::allocate(std::size_t size) {
    if (size > object_size_) throw std::bad_alloc();
    void *block = pop();
    if (!block) {
        if (max_objects_ == 0) {
            block = new char[block_size_];
            blocks_++;
        } else if (pool_index_ < max_objects_) {
            block = pool_ + pool_index_++ * block_size_;
        } else {
            throw std::bad_alloc();
        }
    }
    in_use_++;
    allocations_++;
    return block;
}

void Block_allocator::deallocate(void *block) {
    push(block);
    in_use_--;
    deallocations_++;
}

void Block_allocator::push(void *block) { head_ = new (block) Free_block{head_}; }

void *Block_allocator::pop() {
    Free_block *block = head_;
    if (block) head_ = block->next;
    return block;
}

// ---- malloc and free by classes --------------------------------------------------------------

static std::size_t next_power_of_two(std::size_t size) {
    size--;
    for (std::size_t shift = 1; shift < sizeof size * CHAR_BIT; shift <<= 1) size |= size >> shift;
    return size + 1;
}

std::size_t class_of(std::size_t size) {
    std::size_t whole = size + sizeof(Block_allocator *);
    if (whole > 256 && whole <= 396) return 396;
    if (whole > 512 && whole <= 768) return 768;
    return next_power_of_two(whole);
}

template <class Lock>
Xallocator<Lock>::Xallocator(unsigned objects, char *pool) : static_pools_(true) {
    for (std::size_t size : tuned_sizes) {
        insert(new Block_allocator(size, objects, pool, "xallocator"));
        pool += size * objects;
    }
}

template <class Lock> Xallocator<Lock>::~Xallocator() {
    for (Block_allocator *allocator : allocators_) delete allocator;
}

template <class Lock> Block_allocator *Xallocator<Lock>::find(std::size_t block_size) {
    for (Block_allocator *allocator : allocators_) {
        if (!allocator) break;
        if (allocator->block_size() == block_size) return allocator;
    }
    return nullptr;
}

template <class Lock> void Xallocator<Lock>::insert(Block_allocator *allocator) {
    for (Block_allocator *&place : allocators_) {
        if (!place) {
            place = allocator;
            return;
        }
    }
    delete allocator;
    throw std::bad_alloc(); // the original asserts at the sixteenth class
}

template <class Lock> Block_allocator *Xallocator<Lock>::for_size(std::size_t size) {
    std::size_t block_size = class_of(size);
    Block_allocator *allocator = find(block_size);
    if (!allocator) {
        if (static_pools_) throw std::bad_alloc();
        allocator = new Block_allocator(block_size, 0, nullptr, "xallocator");
        insert(allocator);
    }
    return allocator;
}

template <class Lock> void *Xallocator<Lock>::allocate(std::size_t size) {
    Block_allocator *allocator;
    void *block;
    {
        std::lock_guard<Lock> guard(lock_);
        allocator = for_size(size);
        block = allocator->allocate(sizeof allocator + size);
    }
    Block_allocator **owner = static_cast<Block_allocator **>(block);
    *owner = allocator;
    return owner + 1;
}

template <class Lock> void Xallocator<Lock>::deallocate(void *memory) {
    if (!memory) return;
    Block_allocator **owner = static_cast<Block_allocator **>(memory) - 1;
    Block_allocator *allocator = *owner;
    std::lock_guard<Lock> guard(lock_);
    allocator->deallocate(owner);
}

template class Xallocator<No_lock>;
template class Xallocator<std::mutex>;

} // namespace xallocator_rules
