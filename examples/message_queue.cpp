/* message_queue.cpp: a server that queues the messages of another process on a FIFO, and the same
 * on malloc.
 *
 *   client ══ socket ══> server: read ──> queue (one object a message) ──> handle ──> answer ══╗
 *     ^                                   loam_fifo_alloc                  loam_fifo_free      ║
 *     ╚═══════════════════════════════════ socket ═════════════════════════════════════════════╝
 *
 * Messages have 8 to 2000 bytes, come in bursts and are answered in the order they came in: what a
 * FIFO is made for. The server reads what there is, and handles when there is nothing to read or
 * the queue is long; so the queue is now empty and now some MiB. The client checks that every
 * message is answered once, in order, with the right sum.
 *
 *     message_queue                 both, side by side: time, processor time, most memory
 *     message_queue fifo 1000000    one of them, a million messages; or malloc
 *
 * It exits with 0 iff all answers were right.
 */
#include <loam/fifo.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::uint32_t most_bytes = 2000, least_bytes = 8;
constexpr std::size_t long_queue = 4000; // messages
constexpr std::size_t burst = 6000;      // that the client sends before it looks for answers

struct Head {
    std::uint32_t number, bytes; // of the message; what follows
};
struct Answer {
    std::uint32_t number, sum;
};

// The same for both ends: what message `number` looks like.
std::uint32_t bytes_of(std::uint32_t number) {
    std::uint32_t x = number * 2654435761u;
    return least_bytes + (x >> 8) % (number % 16 == 0 ? most_bytes - least_bytes : 250);
}
std::uint32_t sum_of(const unsigned char *bytes, std::size_t count) {
    std::uint32_t sum = 0, word;
    std::size_t at = 0;
    for (; at + 4 <= count; at += 4) {
        std::memcpy(&word, bytes + at, 4);
        sum = sum * 31 + word;
    }
    return sum;
}

bool write_all(int fd, const void *from, std::size_t bytes) {
    const char *at = static_cast<const char *>(from);
    while (bytes > 0) {
        ssize_t done = send(fd, at, bytes, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done;
        bytes -= static_cast<std::size_t>(done);
    }
    return true;
}

// ---- Where messages live ------------------------------------------------------------------------

class On_fifo {
  public:
    On_fifo() {
        loam_fifo_options options{};
        options.flags = LOAM_FIFO_RAW; // messages are written from end to end
        options.name = "messages";
        good_ = loam_fifo_init(&fifo_, nullptr, &options) == 0;
    }
    ~On_fifo() {
        if (good_) loam_fifo_deinit(&fifo_);
    }
    On_fifo(const On_fifo &) = delete;
    On_fifo &operator=(const On_fifo &) = delete;
    void *alloc(std::size_t bytes) { return good_ ? loam_fifo_alloc(&fifo_, bytes) : nullptr; }
    void free(void *p) { loam_fifo_free(&fifo_, p); }
    bool is_empty() {
        loam_usage usage;
        loam_fifo_usage(&fifo_, &usage);
        return usage.objects == 0 && loam_fifo_check(&fifo_);
    }

  private:
    loam_fifo fifo_;
    bool good_;
};

struct On_malloc {
    void *alloc(std::size_t bytes) { return std::malloc(bytes); }
    void free(void *p) { std::free(p); }
    bool is_empty() { return true; }
};

// ---- The server ---------------------------------------------------------------------------------

struct Message {
    Message *next;
    std::uint32_t number, bytes;
    unsigned char *text() { return reinterpret_cast<unsigned char *>(this + 1); }
};

template <class Heap> class Server {
  public:
    explicit Server(int fd) : fd_(fd) {}

    // Until the client closes its end. False iff something went wrong.
    bool run() {
        for (;;) {
            pollfd ready = {fd_, POLLIN, 0};
            // With messages in the queue only a look whether there is more.
            int found = poll(&ready, 1, first_ != nullptr ? 0 : -1);
            if (found < 0 && errno != EINTR) return false;
            if (found > 0 && queued_ < long_queue) {
                ssize_t got = recv(fd_, input_ + filled_, sizeof input_ - filled_, 0);
                if (got < 0) return false;
                if (got == 0) return first_ == nullptr && filled_ == 0 && heap_.is_empty();
                filled_ += static_cast<std::size_t>(got);
                if (!queue_input()) return false;
                continue;
            }
            if (!handle()) return false;
        }
    }
    std::size_t longest() const { return longest_; }

  private:
    // Each whole message of the input becomes an object at the queue's end.
    bool queue_input() {
        std::size_t at = 0;
        Head head;
        while (filled_ - at >= sizeof head) {
            std::memcpy(&head, input_ + at, sizeof head);
            if (head.bytes > most_bytes) return false;
            if (filled_ - at - sizeof head < head.bytes) break;
            auto *message = static_cast<Message *>(heap_.alloc(sizeof(Message) + head.bytes));
            if (message == nullptr) return false;
            message->next = nullptr;
            message->number = head.number;
            message->bytes = head.bytes;
            std::memcpy(message->text(), input_ + at + sizeof head, head.bytes);
            *(first_ != nullptr ? &last_->next : &first_) = message;
            last_ = message;
            if (++queued_ > longest_) longest_ = queued_;
            at += sizeof head + head.bytes;
        }
        std::memmove(input_, input_ + at, filled_ - at);
        filled_ -= at;
        return true;
    }
    // Answers the oldest, as many as one write takes.
    bool handle() {
        Answer answers[256];
        std::size_t count = 0;
        while (first_ != nullptr && count < 256) {
            Message *message = first_;
            answers[count++] = {message->number, sum_of(message->text(), message->bytes)};
            first_ = message->next;
            queued_--;
            heap_.free(message);
        }
        return write_all(fd_, answers, count * sizeof(Answer));
    }

    Heap heap_;
    int fd_;
    Message *first_ = nullptr, *last_ = nullptr;
    std::size_t queued_ = 0, longest_ = 0, filled_ = 0;
    unsigned char input_[64 * 1024];
};

// ---- The client ---------------------------------------------------------------------------------

class Client {
  public:
    Client(int fd, std::uint32_t count) : fd_(fd), count_(count) {}

    bool run() {
        while (answered_ < count_) {
            std::uint32_t until = answered_ + burst < count_ ? answered_ + burst : count_;
            while (sent_ < until) {
                if (!send_some(until)) return false;
            }
            // Half of them, so that the next burst meets a queue that is not empty.
            while (answered_ < count_ && (sent_ == count_ || sent_ - answered_ > burst / 2)) {
                if (!read_answers()) return false;
            }
        }
        return true;
    }

  private:
    bool send_some(std::uint32_t until) {
        static unsigned char output[64 * 1024];
        std::size_t used = 0;
        while (sent_ < until && used + sizeof(Head) + most_bytes <= sizeof output) {
            Head head = {sent_, bytes_of(sent_)};
            std::memcpy(output + used, &head, sizeof head);
            std::memset(output + used + sizeof head, static_cast<int>(sent_ % 251), head.bytes);
            used += sizeof head + head.bytes;
            sent_++;
        }
        return send_all(output, used);
    }
    // Reads answers where it would have to wait: the server may wait for that.
    bool send_all(const unsigned char *at, std::size_t bytes) {
        while (bytes > 0) {
            ssize_t done = send(fd_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (done >= 0) {
                at += done;
                bytes -= static_cast<std::size_t>(done);
                continue;
            }
            if (errno == EINTR) continue;
            if (errno != EAGAIN) return false;
            pollfd ready = {fd_, POLLIN | POLLOUT, 0};
            if (poll(&ready, 1, -1) > 0 && (ready.revents & POLLIN) && !read_answers())
                return false;
        }
        return true;
    }
    bool read_answers() {
        Answer answers[512];
        ssize_t got = recv(fd_, answers, sizeof answers, 0);
        if (got < 0 && errno == EINTR) return true;
        if (got <= 0) return false;
        // The server writes whole answers; a part of one is waited for.
        std::size_t odd = static_cast<std::size_t>(got) % sizeof(Answer);
        while (odd != 0 && odd < sizeof(Answer)) {
            ssize_t more =
                recv(fd_, reinterpret_cast<char *>(answers) + got, sizeof(Answer) - odd, 0);
            if (more <= 0) return false;
            got += more;
            odd += static_cast<std::size_t>(more);
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof(Answer); i++) {
            unsigned char text[most_bytes];
            std::memset(text, static_cast<int>(answered_ % 251), sizeof text);
            if (answers[i].number != answered_ ||
                answers[i].sum != sum_of(text, bytes_of(answered_))) {
                std::fprintf(stderr, "message_queue: a wrong answer to %u\n", answered_);
                return false;
            }
            answered_++;
        }
        return true;
    }

    int fd_;
    std::uint32_t count_, sent_ = 0, answered_ = 0;
};

// ---- Both ---------------------------------------------------------------------------------------

struct Result {
    double seconds, user_seconds;
    long most_kib;
    std::size_t longest;
    bool good;
};

// A server process and a client process; the server tells how long its queue was by a pipe.
template <class Heap> Result serve(std::uint32_t count) {
    int ends[2], told[2];
    Result result = {};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pipe(told) != 0) {
        std::perror("message_queue");
        return result;
    }
    auto begin = std::chrono::steady_clock::now();
    pid_t server = fork();
    if (server == 0) {
        close(ends[0]);
        static Server<Heap> it(ends[1]);
        bool good = it.run();
        std::size_t longest = it.longest();
        good = write(told[1], &longest, sizeof longest) == sizeof longest && good;
        _exit(good ? 0 : 1);
    }
    close(ends[1]);
    close(told[1]);
    pid_t client = server > 0 ? fork() : -1;
    if (client == 0) _exit(Client(ends[0], count).run() ? 0 : 1);
    close(ends[0]);
    int of_client = 1, of_server = 1;
    rusage usage = {};
    if (client > 0) (void)waitpid(client, &of_client, 0);
    if (server > 0) (void)wait4(server, &of_server, 0, &usage);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.user_seconds = static_cast<double>(usage.ru_utime.tv_sec) +
                          static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
    result.most_kib = usage.ru_maxrss;
    result.good = read(told[0], &result.longest, sizeof result.longest) ==
                      static_cast<ssize_t>(sizeof result.longest) &&
                  of_client == 0 && of_server == 0;
    close(told[0]);
    return result;
}

bool show(const char *name, const Result &result, std::uint32_t count) {
    std::printf("%-8s %10u %10.3f %10.3f %12ld %10zu   %s\n", name, count, result.seconds,
                result.user_seconds, result.most_kib, result.longest,
                result.good ? "all answered, in order" : "WRONG");
    return result.good;
}

} // namespace

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : nullptr;
    long wanted = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 100000;
    bool known =
        only == nullptr || std::strcmp(only, "fifo") == 0 || std::strcmp(only, "malloc") == 0;
    if (!known || wanted < 1 || wanted > 1000000000) {
        std::fprintf(stderr, "usage: message_queue [fifo|malloc [messages]]\n");
        return 2;
    }
    auto count = static_cast<std::uint32_t>(wanted);
    bool good = true;
    std::printf("%-8s %10s %10s %10s %12s %10s\n", "on", "messages", "seconds", "user s",
                "most KiB", "queue");
    for (const char *name : {"fifo", "malloc"}) {
        if (only != nullptr && std::strcmp(only, name) != 0) continue;
        std::fflush(stdout); // or both processes print it
        good =
            show(name, name[0] == 'f' ? serve<On_fifo>(count) : serve<On_malloc>(count), count) &&
            good;
    }
    return good ? 0 : 1;
}
