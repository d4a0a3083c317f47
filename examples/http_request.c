/* http_request.c: a small HTTP/1.1 server whose every request lives in a region.
 *
 *   connection ── region ──┬── request: line, headers, body, answer        reset after each answer
 *                          ├── mark: what only a part of the work needs    rewound when it is done
 *                          └── cleanup: the file that is being sent        closed whatever happens
 *   log ───────── region ───── lines                                       ends with the connection
 *
 * Nothing is freed one by one: an error anywhere returns, and the reset takes care. After the first
 * few requests a connection asks the system for no more memory. The client is a child process on
 * the loopback interface; the program prints what it served, and exits with 0 iff all answers were
 * right.
 */
#include "loam/region.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 512, HEAD_MOST = 16384, BODY_MOST = 1 << 20, HEADERS_MOST = 100 };

typedef struct header {
    struct header *next;
    char *name, *value;
} header_t;

typedef struct request {
    char *method, *path, *body;
    header_t *headers;
    size_t body_bytes;
    int keep_alive;
} request_t;

/* What was read of the next request already outlives the reset: it is in `ahead`. */
typedef struct connection {
    int fd;
    loam_region *region;
    char ahead[READ_BYTES];
    size_t ahead_bytes;
} connection_t;

/* ---- Reading ---- */

static ssize_t read_some(connection_t *c, char *to, size_t most) {
    if (c->ahead_bytes > 0) {
        size_t bytes = c->ahead_bytes < most ? c->ahead_bytes : most;
        memcpy(to, c->ahead, bytes);
        memmove(c->ahead, c->ahead + bytes, c->ahead_bytes -= bytes);
        return (ssize_t)bytes;
    }
    ssize_t bytes;
    do {
        bytes = read(c->fd, to, most);
    } while (bytes < 0 && errno == EINTR);
    return bytes;
}

/* The head of a request, up to the empty line, as a string that grows in place: it is the region's
 * last object. NULL iff the client has gone (*status 0) or sends what we do not take (*status: what
 * to answer). */
static char *read_head(connection_t *c, int *status) {
    size_t room = READ_BYTES, used = 0;
    char *head = (char *)loam_region_alloc(c->region, room + 1);
    *status = 0;
    while (head != NULL) {
        /* No more than `ahead` could hold. */
        size_t most = room - used < READ_BYTES ? room - used : READ_BYTES;
        ssize_t bytes = read_some(c, head + used, most);
        if (bytes <= 0) return NULL;
        used += (size_t)bytes;
        head[used] = '\0';
        char *end = strstr(head, "\r\n\r\n");
        if (end != NULL) {
            c->ahead_bytes = used - (size_t)(end + 4 - head);
            memcpy(c->ahead, end + 4, c->ahead_bytes);
            end[2] = '\0';
            return head;
        }
        if (used < room) continue;
        if (room >= HEAD_MOST) {
            *status = 431;
            return NULL;
        }
        head = (char *)loam_region_realloc(c->region, head, room + 1, 2 * room + 1);
        room *= 2;
    }
    *status = 503;
    return NULL;
}

/* ---- Parsing: pointers into the head, which is cut up ---- */

/* Cuts *text at the next `by` and moves it behind; NULL iff there is none. */
static char *cut(char **text, const char *by) {
    char *start = *text, *end = strstr(start, by);
    if (end == NULL) return NULL;
    *end = '\0';
    *text = end + strlen(by);
    return start;
}

static const char *header_of(const request_t *request, const char *name) {
    for (const header_t *h = request->headers; h != NULL; h = h->next) {
        if (strcasecmp(h->name, name) == 0) return h->value;
    }
    return NULL;
}

static int is_token(const char *text) {
    for (const char *c = text; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("!#$%&'*+-.^_`|~", *c) == NULL) return 0;
    }
    return *text != '\0';
}

/* 0, or what to answer. */
static int parse(loam_region *region, char *head, request_t *request) {
    char *line = cut(&head, "\r\n"), *version = line;
    if (line == NULL) return 400;
    request->method = cut(&version, " ");
    request->path = request->method != NULL ? cut(&version, " ") : NULL;
    if (request->path == NULL || !is_token(request->method) || request->path[0] != '/') return 400;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) return 505;
    for (int count = 0; (line = cut(&head, "\r\n")) != NULL; count++) {
        header_t *h = LOAM_REGION_NEW(region, header_t);
        if (h == NULL) return 503;
        if (count == HEADERS_MOST) return 431;
        h->name = cut(&line, ":");
        if (h->name == NULL || !is_token(h->name)) return 400;
        h->value = line + strspn(line, " \t");
        h->next = request->headers;
        request->headers = h;
    }
    const char *connection = header_of(request, "Connection");
    request->keep_alive = connection != NULL ? strcasecmp(connection, "close") != 0
                                             : strcmp(version, "HTTP/1.1") == 0;
    if (header_of(request, "Transfer-Encoding") != NULL) return 501;
    const char *length = header_of(request, "Content-Length");
    if (length == NULL) return 0;
    char *end;
    unsigned long bytes = strtoul(length, &end, 10);
    if (!isdigit((unsigned char)*length) || *end != '\0') return 400;
    if (bytes > BODY_MOST) return 413;
    request->body_bytes = bytes;
    return 0;
}

static int read_body(connection_t *c, request_t *request) {
    request->body = (char *)loam_region_alloc(c->region, request->body_bytes + 1);
    if (request->body == NULL) return 503;
    for (size_t used = 0; used < request->body_bytes;) {
        ssize_t bytes = read_some(c, request->body + used, request->body_bytes - used);
        if (bytes <= 0) return 400;
        used += (size_t)bytes;
    }
    request->body[request->body_bytes] = '\0';
    return 0;
}

/* ---- Answering ---- */

static int write_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = send(fd, bytes, count, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return -1;
        bytes += written, count -= (size_t)written;
    }
    return 0;
}

static int answer(connection_t *c, int status, const char *text, size_t bytes, int keep_alive) {
    char *head = loam_region_sprintf(
        c->region, "HTTP/1.1 %d %s\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n", status,
        status == 200 ? "OK" : "Sorry", bytes, keep_alive ? "keep-alive" : "close");
    if (head == NULL || write_all(c->fd, head, strlen(head)) != 0) return -1;
    return write_all(c->fd, text, bytes);
}

/* The sum of the numbers "a+b+..." in a query: the list of its parts is needed only here, so it is
 * dropped here. */
static long sum_of(loam_region *region, const char *query) {
    loam_region_mark mark = loam_region_mark_here(region);
    char *rest = loam_region_sprintf(region, "%s+", query), *part;
    long sum = 0, *parts = NULL;
    size_t count = 0;
    while (rest != NULL && (part = cut(&rest, "+")) != NULL) {
        long *more = (long *)loam_region_realloc(region, parts, count * sizeof(long),
                                                 (count + 1) * sizeof(long));
        if (more == NULL) break;
        parts = more;
        parts[count++] = strtol(part, NULL, 10);
    }
    for (size_t i = 0; i < count; i++) sum += parts[i];
    loam_region_rewind(region, &mark);
    return sum;
}

static int answer_file(connection_t *c, const char *name, int keep_alive) {
    struct stat info;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) return answer(c, 404, "", 0, keep_alive);
    /* From here on the reset closes it. */
    if (loam_region_close_fd(c->region, fd) == NULL) {
        close(fd);
        return answer(c, 503, "", 0, keep_alive);
    }
    size_t bytes = (size_t)info.st_size, used = 0;
    char *text = (char *)loam_region_alloc(c->region, bytes + 1);
    if (text == NULL) return answer(c, 503, "", 0, keep_alive);
    for (ssize_t got; used < bytes && (got = read(fd, text + used, bytes - used)) > 0;)
        used += (size_t)got;
    return answer(c, 200, text, used, keep_alive);
}

static const char *served_file;

static int respond(connection_t *c, request_t *request) {
    int keep = request->keep_alive;
    if (strncmp(request->path, "/sum?", 5) == 0) {
        char *text = loam_region_sprintf(c->region, "%ld", sum_of(c->region, request->path + 5));
        return text != NULL ? answer(c, 200, text, strlen(text), keep) : -1;
    }
    if (strcmp(request->path, "/echo") == 0 && strcmp(request->method, "POST") == 0)
        return answer(c, 200, request->body, request->body_bytes, keep);
    if (strcmp(request->path, "/file") == 0) return answer_file(c, served_file, keep);
    return answer(c, 404, "", 0, keep);
}

/* All requests of one connection; how many were good. */
static int serve(int fd) {
    int good = 0, keep = 1, count = 0;
    connection_t c = {.fd = fd, .region = loam_region_create(NULL, NULL)};
    if (c.region == NULL) return 0;
    loam_region *log = loam_region_create(NULL, NULL);
    if (log == NULL) keep = 0;
    while (keep) {
        int status;
        request_t request = {0};
        char *head = read_head(&c, &status);
        if (head == NULL && status == 0) break; /* the client has hung up */
        if (head != NULL) status = parse(c.region, head, &request);
        if (status == 0) status = read_body(&c, &request);
        keep = status == 0 && request.keep_alive;
        if (status != 0 ? answer(&c, status, "", 0, 0) != 0 : respond(&c, &request) != 0) keep = 0;
        good += status == 0;
        loam_usage usage;
        loam_region_usage(c.region, &usage);
        char *line = loam_region_sprintf(
            log, "%d: %s %s: %zu bytes in use, %zu requests for memory so far", ++count,
            request.method ? request.method : "?", request.path ? request.path : "?",
            usage.used_bytes, usage.requests);
        if (line != NULL && (count <= 4 || status != 0)) puts(line);
        loam_region_reset(c.region);
    }
    loam_region_destroy(log);
    loam_region_destroy(c.region);
    return good;
}

/* ---- The client ---- */

static int talk(const struct sockaddr_in *to, const char *send_this, const char *expect) {
    static char text[32768];
    size_t used = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0) return 0;
    if (write_all(fd, send_this, strlen(send_this)) != 0) return 0;
    shutdown(fd, SHUT_WR);
    for (ssize_t got; (got = read(fd, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(fd);
    if (strstr(text, expect) != NULL) return 1;
    fprintf(stderr, "expected %s in:\n%s\n", expect, text);
    return 0;
}

static int client(const struct sockaddr_in *to) {
    int good = talk(
        to,
        "GET /sum?1+20+300 HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n"
        "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
        "GET /file HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n",
        "\r\n\r\n321HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello");
    good += talk(to, "GET /file HTTP/1.0\r\n\r\n", "served from a file");
    good += talk(to, "GET\r\n\r\n", "HTTP/1.1 400");
    good += talk(to, "POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n", "HTTP/1.1 400");
    good += talk(to, "GET / HTTP/3\r\n\r\n", "HTTP/1.1 505");
    /* Long after the first requests nothing new is needed. */
    static char many[200 * 64];
    static const char one[] = "GET /sum?1+2+3+4+5+6+7+8+9+10 HTTP/1.1\r\nHost: x\r\n\r\n";
    for (int i = 0; i < 200; i++) memcpy(many + i * (sizeof one - 1), one, sizeof one);
    good += talk(to, many, "\r\n\r\n55");
    return good == 6 ? 0 : 1;
}

int main(void) {
    static char name[] = "/tmp/loam-http-XXXXXX";
    int file = mkstemp(name), listener = socket(AF_INET, SOCK_STREAM, 0), good = 0, status = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    socklen_t bytes = sizeof address;
    if (file < 0 || write(file, "served from a file", 18) != 18 || close(file) != 0 ||
        listener < 0 ||
        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0) {
        perror("http_request");
        return 1;
    }
    served_file = name;
    pid_t child = fork();
    if (child == 0) _exit(client(&address));
    for (int i = 0; i < 6 && child > 0; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) break;
        good += serve(fd);
        close(fd);
    }
    if (child > 0) (void)waitpid(child, &status, 0);
    unlink(name);
    printf("%d good requests, client %s\n", good, status == 0 ? "satisfied" : "not satisfied");
    return status == 0 && good == 205 ? 0 : 1;
}
