"""Ask with a plain client of Gemini, and call the tool for it."""

import os
import sys

from asking import instrument, send_to_receiver
from google import genai
from google.genai import types
from shop import MODEL, QUESTIONS, SYSTEM, TOOL, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)
client = genai.Client(api_key="none", http_options={"base_url": os.environ["GEMINI_BASE_URL"]})
function = TOOL["function"]
declaration = types.FunctionDeclaration(
    name=function["name"], description=function["description"], parameters_json_schema=function["parameters"]
)
config = types.GenerateContentConfig(system_instruction=SYSTEM, tools=[types.Tool(function_declarations=[declaration])])
for question in QUESTIONS:
    contents = [types.Content(role="user", parts=[types.Part(text=question)])]
    while True:
        reply = client.models.generate_content(model=MODEL, contents=contents, config=config)
        if not reply.function_calls:
            break
        contents.append(reply.candidates[0].content)
        contents.append(
            types.Content(
                role="user",
                parts=[
                    types.Part.from_function_response(name=call.name, response={"result": find_order(**call.args)})
                    for call in reply.function_calls
                ],
            )
        )
provider.shutdown()
