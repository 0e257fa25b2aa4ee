// Trace processor of Perfetto's page as an HTTP server, for PyPI's client:
//
//   node engine.js DIRECTORY
//
// DIRECTORY has engine_bundle.js and the WebAssembly beside it. The server prints its port, and
// ends with its parent. A trace that comes after another one takes its place.
//
// The bundle is the script of a worker. It gets a message port; what goes through the port are
// bytes of `TraceProcessorRpcStream`, in both directions.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const vm = require("node:vm");

// Fields of `TraceProcessorRpcStream` and `TraceProcessorRpc`.
const MESSAGE = 1;
const REQUEST = 2;
const FATAL_ERROR = 5;

// Requests by their path: the method of `TraceProcessorRpc`, the field of the body, the field of
// the reply.
const METHODS = {
  "/parse": { method: 1, body: 101, reply: 201 },
  "/notify_eof": { method: 2, reply: 212 },
  "/query": { method: 3, body: 103, reply: 203 },
  "/status": { method: 10, reply: 210 },
};
const RESET = 11;

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
  return Buffer.from(bytes);
}

function bytesField(number, bytes) {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

// Yields number and value of each field of a message: a number, or bytes.
function* fields(bytes) {
  let place = 0;
  const next = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = bytes[place++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (place < bytes.length) {
    const [tag, value] = [next(), next()];
    if (tag % 8 !== 0 && tag % 8 !== 2) throw new Error(`wire type of the tag ${tag}`);
    const end = tag % 8 === 2 ? place + value : place;
    yield [Math.floor(tag / 8), tag % 8 === 2 ? bytes.subarray(place, end) : value];
    place = end;
  }
}

// Names that the script of a worker finds in a browser. Typed arrays are those of this script, from
// which requests come.
function workerScope(directory) {
  const scope = {
    Uint8Array,
    TextDecoder,
    URL,
    performance,
    crypto,
    setTimeout,
    setInterval,
    clearInterval,
    console: { log: console.error, warn: console.error, error: console.error },
    location: { href: "http://localhost/engine_bundle.js" },
    WorkerGlobalScope: class {},
    XMLHttpRequest: class {
      open(_method, name) {
        this.file = path.join(directory, path.basename(name));
      }
      send() {
        this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
      }
    },
  };
  scope.self = scope;
  return scope;
}

// Starts the engine. Returns the function that sends a request and returns the reply: both bytes.
function start(directory) {
  const scope = workerScope(directory);
  const bundle = fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8");
  vm.runInNewContext(bundle, scope, { displayErrors: false });
  let replies = [];
  const port = { postMessage: (bytes) => replies.push(bytes) };
  scope.onmessage({ data: port });
  return (request) => {
    replies = [];
    port.onmessage({ data: new Uint8Array(request) });
    return Buffer.concat(replies);
  };
}

// Calls a method. Returns the field of its replies; several are the parts of one message, which
// protobuf puts together if they are written one after the other.
function call(send, { method, body, reply }, bytes) {
  const parts = [varint(REQUEST * 8), varint(method)];
  if (body !== undefined) parts.push(bytesField(body, bytes));
  const found = [];
  for (const [, message] of fields(send(bytesField(MESSAGE, Buffer.concat(parts))))) {
    for (const [number, value] of fields(message)) {
      if (number === FATAL_ERROR) throw new Error(value.toString());
      if (number === reply) found.push(value);
    }
  }
  return Buffer.concat(found);
}

const send = start(process.argv[2]);
let isWhole = false;
const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    try {
      if (request.url === "/parse" && isWhole) call(send, { method: RESET });
      if (request.url === "/parse") isWhole = false;
      if (request.url === "/notify_eof") isWhole = true;
      response.end(call(send, METHODS[request.url], Buffer.concat(chunks)));
    } catch (error) {
      response.statusCode = 500;
      response.end(String(error));
    }
  });
});
server.listen(0, "localhost", () => console.log(server.address().port));
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(1), 1000);
