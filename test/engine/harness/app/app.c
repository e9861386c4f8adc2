/*
 * The program that the engine suites run in containers: a small HTTP/1.1 server whose life is set by its environment.
 *
 *   PORT              where it listens (8080)
 *   VERSION           what it answers (dev)
 *   START_MS          delay before it listens (0)
 *   HEALTHY_AFTER_MS  /health answers 503 until then, counted from the start of the process; -1 is never (0)
 *   EXIT_MS           delay between the end of the last request and the exit, after SIGTERM (0)
 *   IGNORE_TERM       1: SIGTERM changes nothing
 *   EXIT_AFTER_MS     ends by itself after that time, whatever is in flight (unset: never)
 *   EXIT_CODE         with which code it then ends (1)
 *
 *   GET /             200, the version
 *   GET /slow?ms=N    the same after N ms
 *   GET /health       200 or 503
 *
 * On SIGTERM or SIGINT the listener closes at once, requests in flight are answered, and the exit code is 0.
 * Standard output has a line for each thing that happens: "listening PORT", "signal N", "exit CODE".
 *
 * With arguments it does one thing, and ends:
 *
 *   app do OUT ERR CODE MS   writes OUT to standard output and ERR to standard error, waits, and exits with CODE
 *   app fill BYTES           writes so many bytes to standard output, all of them x
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long long started_at;
static long long healthy_after;
static const char *version;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_answered = PTHREAD_COND_INITIALIZER;
static int in_flight = 0;

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void sleep_ms(long long ms) {
  struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
  while (nanosleep(&t, &t) == -1 && errno == EINTR) {
  }
}

static long long env_ms(const char *name, long long fallback) {
  const char *text = getenv(name);
  return text && *text ? atoll(text) : fallback;
}

static void leave(int code) {
  printf("exit %d\n", code);
  fflush(stdout);
  _exit(code);
}

static void answer(int fd, const char *status, const char *body) {
  char text[512];
  int size = snprintf(text, sizeof text,
                      "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nX-Version: %s\r\n"
                      "Connection: close\r\n\r\n%s\n",
                      status, strlen(body) + 1, version, body);
  for (int sent = 0; sent < size;) {
    ssize_t n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += n;
  }
}

static void serve(int fd) {
  char request[4096];
  size_t size = 0;
  request[0] = 0;
  while (!strstr(request, "\r\n\r\n") && size < sizeof request - 1) {
    ssize_t n = recv(fd, request + size, sizeof request - 1 - size, 0);
    if (n <= 0) return;
    size += n;
    request[size] = 0;
  }
  char *path = strchr(request, ' ');
  if (!path) return;
  path++;
  if (strncmp(path, "/slow", 5) == 0) {
    char *ms = strstr(path, "ms=");
    sleep_ms(ms ? atoll(ms + 3) : 1000);
  }
  if (strncmp(path, "/health", 7) == 0 && (healthy_after < 0 || now_ms() - started_at < healthy_after)) {
    answer(fd, "503 Service Unavailable", "unhealthy");
    return;
  }
  answer(fd, "200 OK", version);
}

static void *connection(void *argument) {
  int fd = (int)(long)argument;
  serve(fd);
  shutdown(fd, SHUT_WR);
  /* Reading to the end first keeps a reset from overtaking the answer. */
  char rest[256];
  struct timeval patience = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  while (recv(fd, rest, sizeof rest, 0) > 0) {
  }
  close(fd);
  pthread_mutex_lock(&lock);
  if (--in_flight == 0) pthread_cond_signal(&all_answered);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void accept_one(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  pthread_mutex_lock(&lock);
  in_flight++;
  pthread_mutex_unlock(&lock);
  pthread_t thread;
  if (pthread_create(&thread, NULL, connection, (void *)(long)fd) == 0) {
    pthread_detach(thread);
    return;
  }
  close(fd);
  pthread_mutex_lock(&lock);
  in_flight--;
  pthread_mutex_unlock(&lock);
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
  if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 512)) {
    perror("listen");
    leave(98);
  }
  printf("listening %d\n", port);
  fflush(stdout);
  return fd;
}

static void drain_and_leave(int listener) {
  if (listener >= 0) {
    /* The handshake of a connection in the backlog is done: its client counts as in flight. */
    struct pollfd waiting = {listener, POLLIN, 0};
    while (poll(&waiting, 1, 0) > 0) accept_one(listener);
    close(listener);
  }
  pthread_mutex_lock(&lock);
  while (in_flight > 0) pthread_cond_wait(&all_answered, &lock);
  pthread_mutex_unlock(&lock);
  sleep_ms(env_ms("EXIT_MS", 0));
  leave(0);
}

static void *end_by_itself(void *argument) {
  sleep_ms((long long)(long)argument);
  leave((int)env_ms("EXIT_CODE", 1));
  return NULL;
}

static int fill(long long bytes) {
  char block[4096];
  memset(block, 'x', sizeof block);
  while (bytes > 0) {
    size_t part = bytes < (long long)sizeof block ? (size_t)bytes : sizeof block;
    fwrite(block, 1, part, stdout);
    bytes -= (long long)part;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "fill") == 0) return fill(atoll(argv[2]));
  if (argc == 6 && strcmp(argv[1], "do") == 0) {
    fputs(argv[2], stdout);
    fflush(stdout);
    fputs(argv[3], stderr);
    sleep_ms(atoll(argv[5]));
    return atoi(argv[4]);
  }

  started_at = now_ms();
  healthy_after = env_ms("HEALTHY_AFTER_MS", 0);
  version = getenv("VERSION") ? getenv("VERSION") : "dev";

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);

  long long exit_after = env_ms("EXIT_AFTER_MS", -1);
  pthread_t timer;
  if (exit_after >= 0) pthread_create(&timer, NULL, end_by_itself, (void *)(long)exit_after);

  int ignores = env_ms("IGNORE_TERM", 0) == 1;
  int listener = -1;
  long long listen_at = started_at + env_ms("START_MS", 0);
  for (;;) {
    struct pollfd ready[2] = {{signal_fd, POLLIN, 0}, {listener, POLLIN, 0}};
    long long wait = listen_at - now_ms();
    poll(ready, 2, listener >= 0 ? -1 : wait > 0 ? (int)wait : 0);
    if (ready[0].revents & POLLIN) {
      struct signalfd_siginfo info;
      if (read(signal_fd, &info, sizeof info) == sizeof info) {
        printf("signal %u\n", info.ssi_signo);
        fflush(stdout);
        if (!(ignores && info.ssi_signo == SIGTERM)) drain_and_leave(listener);
      }
    }
    if (listener >= 0 && ready[1].revents & POLLIN) accept_one(listener);
    if (listener < 0 && now_ms() >= listen_at) listener = listen_on((int)env_ms("PORT", 8080));
  }
}
