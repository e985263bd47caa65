"""The examples of openapi.yaml. A test holds each of them to its schema."""

from collections.abc import Mapping

Examples = Mapping[str, object]

_USAGE: Examples = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 0},
}
_CHAT_USAGE: Examples = {
    "prompt_tokens": 31,
    "completion_tokens": 2,
    "total_tokens": 33,
    "prompt_tokens_details": {"cached_tokens": 16},
}
_CARD: Examples = {
    "id": "smollm2",
    "object": "model",
    "created": 1760000000,
    "owned_by": "octavo",
    "max_model_len": 8192,
}

COMPLETION_REQUESTS: Examples = {
    "text": {"model": "smollm2", "prompt": "The capital of France is", "max_tokens": 8},
    "scoring": {
        "model": "smollm2",
        "prompt": [504, 3575, 282, 4649, 314, 7042],
        "max_tokens": 0,
        "echo": True,
        "logprobs": 1,
    },
    "several": {
        "model": "smollm2",
        "prompt": ["One,", "A,"],
        "n": 2,
        "seed": 7,
        "stop": ["\n"],
        "stream": True,
        "stream_options": {"include_usage": True},
    },
}
COMPLETIONS: Examples = {
    "text": {
        "id": "cmpl-1f2e3d4c5b6a79881f2e3d4c",
        "object": "text_completion",
        "created": 1760000000,
        "model": "smollm2",
        "choices": [{"index": 0, "text": " Paris.", "logprobs": None, "finish_reason": "length"}],
        "usage": _USAGE,
    },
    "logprobs": {
        "id": "cmpl-1f2e3d4c5b6a79881f2e3d4d",
        "object": "text_completion",
        "created": 1760000000,
        "model": "smollm2",
        "choices": [
            {
                "index": 0,
                "text": " Paris.",
                "logprobs": {
                    "tokens": [" Paris", "."],
                    "token_logprobs": [-0.25, -0.5],
                    "top_logprobs": [{" Paris": -0.25}, {".": -0.5}],
                    "text_offset": [0, 6],
                },
                "finish_reason": "length",
            }
        ],
        "usage": _USAGE,
    },
}
COMPLETION_STREAM = (
    'data: {"id":"cmpl-1f2e3d4c5b6a79881f2e3d4c","object":"text_completion",'
    '"created":1760000000,"model":"smollm2","choices":[{"index":0,"text":" Paris.",'
    '"logprobs":null,"finish_reason":null}]}\n\n'
    'data: {"id":"cmpl-1f2e3d4c5b6a79881f2e3d4c","object":"text_completion",'
    '"created":1760000000,"model":"smollm2","choices":[{"index":0,"text":"",'
    '"logprobs":null,"finish_reason":"length"}]}\n\n'
    "data: [DONE]\n\n"
)

CHAT_REQUESTS: Examples = {
    "text": {"model": "smollm2", "messages": [{"role": "user", "content": "Say hello."}]},
    "parts": {
        "model": "smollm2",
        "messages": [
            {"role": "developer", "content": "Answer in one word."},
            {"role": "user", "content": [{"type": "text", "text": "Is water wet?"}]},
        ],
        "temperature": 0,
        "max_completion_tokens": 16,
        "logprobs": True,
        "top_logprobs": 2,
    },
    "continued": {
        "model": "smollm2",
        "messages": [
            {"role": "user", "content": "Count to five."},
            {"role": "assistant", "content": "One, two,"},
        ],
        "continue_final_message": True,
        "stream": True,
    },
}
CHAT_COMPLETIONS: Examples = {
    "text": {
        "id": "chatcmpl-1f2e3d4c5b6a79881f2e3d4c",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "smollm2",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello!", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": _CHAT_USAGE,
    }
}
CHAT_STREAM = (
    'data: {"id":"chatcmpl-1f2e3d4c5b6a79881f2e3d4c","object":"chat.completion.chunk",'
    '"created":1760000000,"model":"smollm2","choices":[{"index":0,'
    '"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
    'data: {"id":"chatcmpl-1f2e3d4c5b6a79881f2e3d4c","object":"chat.completion.chunk",'
    '"created":1760000000,"model":"smollm2","choices":[{"index":0,'
    '"delta":{"content":"Hello!"},"logprobs":null,"finish_reason":null}]}\n\n'
    'data: {"id":"chatcmpl-1f2e3d4c5b6a79881f2e3d4c","object":"chat.completion.chunk",'
    '"created":1760000000,"model":"smollm2","choices":[{"index":0,'
    '"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)

TOKENIZE_REQUESTS: Examples = {
    "text": {"model": "smollm2", "prompt": "Hello, world!", "return_token_strs": True},
    "messages": {"model": "smollm2", "messages": [{"role": "user", "content": "Hi"}]},
}
TOKENS: Examples = {
    "text": {
        "count": 4,
        "max_model_len": 8192,
        "tokens": [19556, 28, 905, 17],
        "token_strs": ["Hello", ",", " world", "!"],
    }
}
DETOKENIZE_REQUESTS: Examples = {"ids": {"model": "smollm2", "tokens": [19556, 28, 905, 17]}}
TEXTS: Examples = {"text": {"prompt": "Hello, world!"}}

MODELS: Examples = {"model": _CARD}
MODEL_LISTS: Examples = {"one": {"object": "list", "data": [_CARD]}}
METRICS = (
    "# HELP octavo_requests_running Sequences in steps.\n"
    "# TYPE octavo_requests_running gauge\n"
    "octavo_requests_running 3.0\n"
)
PAGES: Examples = {
    "page_size": 16,
    "num_pages": 1024,
    "num_untouched": 1023,
    "pages": [
        {
            "page_id": 0,
            "state": "used",
            "reference_count": 1,
            "is_indexed": False,
            "fill": 5,
            "owners": ["6f1d0c8a2b3e4f5061728394-0/0"],
        }
    ],
}
SNAPSHOT_STREAM = (
    'data: {"model":"smollm2","status":"ready","requests_running":1,"requests_waiting":0,'
    '"rates":{"generated_tokens":41.5,"prompt_tokens":0.0},'
    '"first_token":{"median":0.0712,"p95":0.1304,"requests":12},"prefix_hit_rate":0.25,'
    '"preemptions":0,"pages":{"free":1021,"used":2,"cached":1},'
    '"pool":{"page_size":16,"num_pages":1024,"exact":true,"owners":["req-1f2e3d4c/0"],'
    '"runs":[{"used":1,"tokens":16,"holders":1,"owners":[0]},'
    '{"used":1,"tokens":5,"holders":1,"owners":[0]},{"cached":1,"tokens":16},{"free":1021}]},'
    '"sequences":[{"name":"req-1f2e3d4c/0","state":"running","prompt_tokens":12,'
    '"prompt_computed":12,"cached_tokens":0,"generated_tokens":10,"max_tokens":64,'
    '"preemptions":0,"age_seconds":0.4}]}\n\n'
    "data: [DONE]\n\n"
)
