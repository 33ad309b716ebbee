/**
 * The program that runs a Python tool, given to Python with `-c`. Before the tool is loaded, an audit hook refuses what a tool
 * must not do. The hook uses only what it holds itself, so that a tool cannot change how it decides by replacing a builtin.
 */
export const PYTHON_RUNNER = String.raw`
import sys, os, json, resource
from importlib.util import spec_from_file_location, module_from_spec

def _main():
    rest = b""
    def receive():
        nonlocal rest
        parts = [rest]
        while b"\n" not in parts[-1]:
            chunk = os.read(3, 65536)
            if not chunk:
                os._exit(1)
            parts.append(chunk)
        line, _, rest = b"".join(parts).partition(b"\n")
        return json.loads(line)

    def encode(message):
        return (json.dumps(message, default=str, allow_nan=False) + "\n").encode("utf-8", "backslashreplace")

    def send(message):
        data = encode(message)
        while data:
            data = data[os.write(3, data):]

    def end(message):
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            send(message)
            os._exit(0)

    def describe(error, folder):
        where = ""
        step = error.__traceback__
        while step is not None:
            name = step.tb_frame.f_code.co_filename
            if name.startswith(folder):
                where = " (%s:%d)" % (name[len(folder) + 1:], step.tb_lineno)
            step = step.tb_next
        return "%s: %s%s" % (type(error).__name__, error, where)

    class Executor:
        """The older system's executor: what a tool calls other actions with."""
        _last = 0

        def call(self, name, **args):
            return self._call(name, args)

        def _call(self, name, args):
            Executor._last += 1
            send({"call": {"id": Executor._last, "name": name, "args": args}})
            while True:
                answer = receive()
                if answer["id"] == Executor._last:
                    return answer["outcome"]

        def execute_action_with_log(self, action):
            args = {key: value for key, value in action.items() if key != "type"}
            outcome = self._call(action.get("type"), args)
            done = outcome["status"] == "done"
            data = outcome.get("data")
            made = data.get("resource_id") if isinstance(data, dict) else None
            reason = None if done else outcome.get("reason")
            if outcome["status"] == "waiting":
                reason = "it waits for a person to approve it: " + str(reason)
            return self._create_uniform_return(
                "success" if done else "failed", data=data, value=outcome.get("value"), reason=reason, resource_id=made)

        execute_action = execute_action_with_log

        def progress(self, progress, total=None, message=None):
            send({"progress": {"progress": progress, "total": total, "message": message}})

        def _create_uniform_return(self, status="success", data=None, value=None, reason=None, resource_id=None, extra=None):
            made = {"status": status, "data": data, "value": value}
            for key, given in (("reason", reason), ("resource_id", resource_id), ("extra", extra)):
                if given is not None:
                    made[key] = given
            return made

    request = receive()
    folder, file, args = request["folder"], request["file"], request["args"]
    sys.path.insert(0, folder)
    _lock_down(folder)
    try:
        spec = spec_from_file_location("tool", folder + "/" + file)
        module = module_from_spec(spec)
        sys.modules["tool"] = module
        spec.loader.exec_module(module)
        tool = getattr(module, "tool", None)
        if not callable(tool):
            raise TypeError(file + " has no function tool")
        given = next((key for key in ("input_value", "input", "value") if key in args), None)
        value = None if given is None else args.pop(given)
        args["executor"] = Executor()
        code = getattr(tool, "__code__", None)
        if code is not None and not code.co_flags & 0x08:
            known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            args = {key: each for key, each in args.items() if key in known}
        result = tool(value, **args)
        encode(result)
    except BaseException as error:
        end({"error": describe(error, folder)})
    end({"result": result})

def _lock_down(folder):
    for name, limit in (("RLIMIT_NPROC", 0), ("RLIMIT_NOFILE", 64)):
        try:
            resource.setrlimit(getattr(resource, name), (limit, limit))
        except (AttributeError, ValueError, OSError):
            pass
    native = ("_ctypes", "_sqlite3", "_dbm", "_gdbm", "_posixshmem", "_posixsubprocess", "_interpreters", "_tkinter",
              "_curses", "_curses_panel", "readline", "spwd", "nis", "ossaudiodev")
    tests = ("_test", "_xx", "_ctypes_test")
    # A module that is made anew has the functions that are replaced below, so all are loaded first.
    import posix, _imp, _posixsubprocess
    for name in sys.builtin_module_names:
        if name not in native and not name.startswith(tests):
            __import__(name)
    # These raise no audit event.
    def refuse(*args, **kwargs):
        raise PermissionError("a tool may not do this")
    for name in ("mkfifo", "mknod", "chroot", "setsid", "setpgid", "setpgrp", "pidfd_open", "setpriority",
                 "sched_setaffinity", "sched_setscheduler", "setns", "unshare"):
        os.supports_dir_fd.discard(getattr(posix, name, None))
        for module in (posix, os):
            if hasattr(module, name):
                setattr(module, name, refuse)
    _posixsubprocess.fork_exec = refuse
    _imp.create_builtin = refuse

    # Values of the hook are its defaults: free variables could be changed through the frames of a traceback.
    libraries = tuple(path + "/" for path in sys.path if path.startswith("/") and path != folder)
    def hook(event, args, *, prefix=folder + "/", text=str, binary=bytes, number=int, kind=type,
             denied=PermissionError, missing=ImportError, native=native, tests=tests, libraries=libraries,
             readable=libraries
             + (folder + "/", "/usr/share/zoneinfo/", "/etc/localtime/", "/dev/null/", "/dev/urandom/"),
             writes=os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
             refused=("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "tempfile.", "sqlite3.", "signal.",
                      "resource.", "pty.", "fcntl.", "syslog.", "webbrowser.", "gc.", "sys.addaudithook"),
             reading=("open", "os.listdir", "os.scandir", "os.walk", "os.fwalk"),
             harmless=("os.putenv", "os.unsetenv")):
        if event in reading:
            path = args[0]
            if event == "open" and kind(args[2]) is number and args[2] & writes and kind(path) is not number:
                raise denied("a tool may not write files")
            if path is None or kind(path) is number:
                return
            if kind(path) is binary:
                path = path.decode("utf-8", "surrogateescape")
            if kind(path) is text and not path.startswith("/"):
                path = prefix + path
            # Other types could answer differently each time they are asked.
            if kind(path) is not text or "/../" in path + "/" or not (path + "/").startswith(readable):
                raise denied("a tool may only read files of its skill")
        elif event == "import":
            # The file is given for native code. Its name may have a package before it.
            name, file = args[0], args[1]
            if kind(name) is not text:
                raise denied("a tool may not import this module")
            own = name if file is None else name.rpartition(".")[2]
            # Modules that can do without these expect this error.
            if own in native or own.startswith(tests):
                raise missing("a tool may not import this module")
            if file is not None and (kind(file) is not text or "/../" in file or not file.startswith(libraries)):
                raise denied("a tool may not load native code")
        elif event == "socket.__new__" and args[1] == 1:
            return  # A local pair, which event loops need. Connecting it is refused.
        elif event.startswith(refused) and event not in harmless:
            raise denied("a tool may not do this: " + event)
    sys.addaudithook(hook)

_main()
`;
